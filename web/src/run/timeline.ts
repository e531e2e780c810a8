import type { Run, Task } from '../api/client'
import { finalStatuses } from '../lib/status'
import { baseOf, type Tasks } from './graph/graph'

/** The parts of a task's time: `run` if its stages are not known. */
export type PartKind = 'approval' | 'slots' | 'queue' | 'prepare' | 'step' | 'transfer' | 'cleanup' | 'run'

export interface Part {
  kind: PartKind
  from: number
  to: number
  /** The name of the step, if the part is one. */
  step?: string
  /** Whether it failed, and if so whether that was allowed. */
  failed?: 'failed' | 'warnings'
}

export const partLabels: Record<PartKind, string> = {
  approval: 'approval', slots: 'change group', queue: 'queue', prepare: 'environment', step: 'step', transfer: 'archive transfer', cleanup: 'cleanup', run: 'running',
}

export interface Row {
  name: string
  task: Task
  /** When it was queued, or began; for tasks of change groups, when they began to wait for an approval or for slots. */
  from: number
  to: number
  /** When its last approval was given. */
  approved?: number
}

/** approvalsOf returns when the last approval of each task was given. */
export function approvalsOf(run: Pick<Run, 'actions'>): ReadonlyMap<string, number> {
  const approved = new Map<string, number>()
  for (const a of run.actions ?? []) if (a.action === 'approve' && a.task !== undefined) approved.set(a.task, Math.max(approved.get(a.task) ?? 0, Date.parse(a.time)))
  return approved
}

/**
 * rowsOf returns the tasks that were queued, or wait for an approval or for a change group, in the order of that; a task can be approved when the
 * last of its dependencies has ended. Open tasks last until now.
 */
export function rowsOf(tasks: Tasks, now: number, start: number, approved: ReadonlyMap<string, number> = new Map()): Row[] {
  const rows: Row[] = []
  const ended = new Map<string, number>()
  for (const [name, task] of Object.entries(tasks)) {
    if (task.ended_at) ended.set(baseOf(name), Math.max(ended.get(baseOf(name)) ?? start, Date.parse(task.ended_at)))
  }
  for (const [name, task] of Object.entries(tasks)) {
    const begin = task.queued_at ?? task.started_at
    if (!begin && !waits(task)) continue
    const ready = Math.max(start, ...task.depends.map((d) => ended.get(baseOf(d.task)) ?? start))
    const from = !begin ? ready : waitedForSlots(task) ? Math.min(ready, Date.parse(begin)) : Date.parse(begin)
    rows.push({ name, task, from, to: Math.max(from, endOf(task, now)), ...(approved.has(name) && { approved: approved.get(name) }) })
  }
  return rows.sort((a, b) => a.from - b.from || a.task.number - b.task.number)
}

/** Whether a task waits that was not queued yet. */
const waits = (task: Task) => task.status === 'waiting_approval' || task.status === 'waiting_changegroup'

/** Whether a task was queued when it had its slots, and not again since: then its time in the queue does not begin where its waiting did. */
const waitedForSlots = (task: Task) => task.changegroups !== undefined && task.queued_at !== undefined && task.attempt <= 1

const endOf = (task: Task, now: number) => (task.ended_at ? Date.parse(task.ended_at) : finalStatuses.has(task.status) ? Date.parse(task.started_at ?? task.queued_at ?? '') || now : now)

/**
 * partsOf returns the parts of a task's time, in their order and without overlap. Steps have the clock of the executor,
 * which may differ: nothing is drawn outside of the task's own time.
 */
export function partsOf({ task, from, to, approved }: Row): Part[] {
  const parts: Part[] = []
  let at = from
  const add = (kind: PartKind, end: number, more?: Pick<Part, 'step' | 'failed'>) => {
    const until = Math.min(Math.max(end, at), to)
    if (until > at || more) parts.push({ kind, from: at, to: until, ...more })
    at = Math.max(at, until)
  }
  if (task.status === 'waiting_approval') {
    add('approval', to)
    return parts
  }
  if (task.approval && approved !== undefined && (waits(task) || waitedForSlots(task))) add('approval', approved)
  if (waits(task)) {
    add('slots', to)
    return parts
  }
  if (waitedForSlots(task)) add('slots', Date.parse(task.queued_at!))
  const failed = task.allow_failure ? 'warnings' : 'failed'
  const stages = task.stages ?? []
  const begun = stages[0]?.started_at ?? task.started_at
  add('queue', begun ? Date.parse(begun) : to)
  if (stages.length === 0 && begun) add('run', to, { failed: task.status === 'failed' ? failed : undefined })
  for (const stage of stages) {
    at = Math.min(to, Math.max(at, Date.parse(stage.started_at)))
    const step = stage.step === undefined ? undefined : task.steps[stage.step]
    const kind = (stage.stage in partLabels ? stage.stage : 'run') as PartKind
    add(kind, stage.ended_at ? Date.parse(stage.ended_at) : to, step && { step: step.name || `step ${stage.step! + 1}`, failed: step.status === 'failed' ? failed : undefined })
  }
  return parts
}

/**
 * criticalPath returns the chain of tasks that determined how long the run took until now: from the task that ended last,
 * always to the dependency that ended last.
 */
export function criticalPath(tasks: Tasks, now: number): string[] {
  const byBase = new Map<string, string[]>()
  const names = Object.keys(tasks)
  for (const name of names) {
    const base = baseOf(name)
    const of = byBase.get(base)
    if (of) of.push(name)
    else byBase.set(base, [name])
  }
  const latest = (of: Iterable<string>) => {
    let best: string | undefined
    let end = -Infinity
    for (const name of of) {
      const task = tasks[name]
      // A task that never ran and waits for nothing delayed nothing.
      if (!task || (!(task.queued_at ?? task.started_at) && !waits(task)) || task.status === 'skipped' || task.status === 'cancelled') continue
      const at = endOf(task, now)
      if (at <= end) continue
      best = name
      end = at
    }
    return best
  }
  const path: string[] = []
  const seen = new Set<string>()
  for (let name = latest(names); name !== undefined && !seen.has(name); ) {
    seen.add(name)
    path.unshift(name)
    const task = tasks[name]!
    const before = task.depends.flatMap((d) => (d.task in tasks && !byBase.get(d.task)?.some((n) => n !== d.task) ? [d.task] : (byBase.get(baseOf(d.task)) ?? [])))
    // What runs at the end waits for everything else.
    name = latest(before.length === 0 && task.finally ? names.filter((n) => !tasks[n]!.finally) : before)
  }
  return path
}

const units = [1, 2, 5, 10, 20, 50, 100, 200, 500, ...[1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400].map((s) => 1000 * s)]

/** ticksOf returns round distances from the begin for an axis, at most about as many as asked for. */
export function ticksOf(length: number, most: number): number[] {
  const each = length / Math.max(1, most)
  const unit = units.find((u) => u >= each) ?? Math.ceil(each / 86_400_000) * 86_400_000
  const ticks = []
  for (let at = 0; at <= length; at += unit) ticks.push(at)
  return ticks
}

/** tickLabel prints a distance, without units that are zero. */
export function tickLabel(millis: number): string {
  if (millis === 0) return '0'
  if (millis < 1000) return `${millis} ms`
  const s = Math.round(millis / 1000)
  const parts = [[Math.floor(s / 86400), 'd'], [Math.floor(s / 3600) % 24, 'h'], [Math.floor(s / 60) % 60, 'min'], [s % 60, 's']] as const
  return parts.filter(([n]) => n > 0).map(([n, unit]) => `${n} ${unit}`).join(' ')
}
