import type { Run, Task } from '../api/client'
import { counted } from '../lib/counted'
import { refusalOf, type Operation, type Session } from '../lib/permissions'
import { quoted } from '../lib/shell'
import { finalStatuses, kindOf, type Kind } from '../lib/status'
import { decisionRefusal } from './approval'

/** A Wait is a task that waits, and why. */
export interface Wait {
  task: string
  status: Task['status']
  reason: string
}

/** A Hint is something that helps, as a command and, where the page can do it, as a button or link. */
export interface Hint {
  text: string
  /** The operation that it needs, and the group of the run if that is where. A user who may not call it does not see the hint. */
  needs: Operation
  group?: string
  command?: string
  action?: 'start' | 'restart-failed'
  /** The tasks to approve, or whose logs to read. */
  approve?: string[]
  logs?: string
  page?: '/operations' | '/operations/pools' | '/operations/fleets' | '/operations/changegroups'
}

/** A Line is what the page of a run says of one kind of waits, or of a failure. */
export interface Line {
  status: Kind
  text: string
  /** The task that it is about, if that is one. */
  task?: string
  /** What a button of the line does. */
  approve?: string[]
  start?: boolean
  logs?: string
}

/** Tasks that wait only for other tasks of the run are many, and the graph shows them. */
const maxDependent = 10
const maxFailed = 3
const maxLines = 4
/** Beyond this number the command does not name the tasks. */
const maxNamed = 20

/** waitsOf returns the tasks that wait, by number, and how many more wait only for other tasks. */
export function waitsOf(run: Pick<Run, 'phase' | 'tasks'>): { waits: Wait[]; more: number } {
  const waits: Wait[] = []
  let dependent = 0
  if (run.phase !== 'running') return { waits, more: 0 }
  for (const [name, task] of byNumber(run.tasks, (t) => t.reason !== '' && !finalStatuses.has(t.status))) {
    if (task.status === 'not_started' && ++dependent > maxDependent) continue
    waits.push({ task: name, status: task.status, reason: task.reason })
  }
  // What a user can do something about comes first.
  waits.sort((a, b) => Number(a.status === 'not_started') - Number(b.status === 'not_started'))
  return { waits, more: Math.max(0, dependent - maxDependent) }
}

/** linesOf returns one line for each kind of waits, and none for tasks that only wait for others: such a run works off its graph. */
export function linesOf(run: Run, session: Session): Line[] {
  switch (run.phase) {
    // The button of a start says what the user lacks for it.
    case 'queued': return queuedHints(run).slice(0, 1).filter((h) => h.action === 'start' || mayUse(session)(h)).map((h) => ({ status: 'queued', text: h.text, start: h.action === 'start' }))
    case 'running': return waitLines(run)
    case 'finished': return run.result === 'failed' ? failedLines(run) : []
    default: return []
  }
}

function waitLines(run: Run): Line[] {
  const lines: Line[] = []
  const approve = byNumber(run.tasks, (t) => t.status === 'waiting_approval').map(([name]) => name)
  if (approve.length > 0) lines.push({ status: 'waiting_approval', approve, ...(approve.length === 1 ? { text: '', task: approve[0] } : { text: counted(approve.length, 'task') }) })
  const slots = new Map<string, { first: string; reason: string; count: number }>()
  for (const [name, { reason }] of byNumber(run.tasks, (t) => t.status === 'waiting_changegroup')) {
    const cause = slotsCause(reason)
    const same = slots.get(cause)
    if (!same) slots.set(cause, { first: name, reason, count: 1 })
    else {
      same.count++
      // Of two positions in the same words, the shorter text has the smaller one.
      if (reason.length < same.reason.length || (reason.length === same.reason.length && reason < same.reason)) same.reason = reason
    }
  }
  const pools = new Map<string, { first: string; reason: string; count: number }>()
  for (const [name, task] of byNumber(run.tasks, (t) => t.status === 'queued' && t.reason !== '')) {
    const pool = pools.get(task.pool)
    if (pool) pool.count++
    else pools.set(task.pool, { first: name, reason: task.reason, count: 1 })
  }
  for (const [status, waits] of [['waiting_changegroup', slots], ['queued', pools]] as const) {
    for (const { first, reason, count } of waits.values()) lines.push({ status, ...(count === 1 ? { text: reason, task: first } : { text: `${counted(count, 'task')}: ${reason}` }) })
  }
  if (lines.length <= maxLines) return lines
  const left = lines.slice(maxLines - 1)
  const more = (status: Kind, what: string) => {
    const n = left.filter((l) => l.status === status).length
    return n > 0 ? [counted(n, `more ${what}`)] : []
  }
  const text = `tasks of ${[...more('waiting_changegroup', 'change group'), ...more('queued', 'pool')].join(' and ')}`
  return [...lines.slice(0, maxLines - 1), { status: left[0]!.status, text }]
}

/** slotsCause returns the change groups that a task waits for, by its reason: the same for all tasks that wait for the same ones. */
function slotsCause(reason: string): string {
  return reason.split('; ').map((of) => of.replace(/: position .*/, '')).join('; ')
}

function failedLines(run: Run): Line[] {
  const failed = byNumber(run.tasks, (t) => kindOf(t) === 'failed')
  const lines: Line[] = failed.slice(0, maxFailed).map(([name, t]) => ({ status: 'failed', text: t.reason, task: name, logs: t.executor !== '' ? name : undefined }))
  if (failed.length > maxFailed) lines.push({ status: 'failed', text: `${counted(failed.length - maxFailed, 'task')} more` })
  return lines
}

/** hintsOf returns what can help and is the user's to do, also after a failure. */
export function hintsOf(run: Run, session: Session): Hint[] {
  switch (run.phase) {
    case 'queued': return queuedHints(run).filter(mayUse(session))
    case 'running': return taskHints(run, session).filter(mayUse(session))
    case 'finished': return run.result === 'failed' ? failedHints(run).filter(mayUse(session)) : []
    default: return []
  }
}

const mayUse = (session: Session) => ({ needs, group }: Hint) => refusalOf(session, needs, group) === undefined

function queuedHints(run: Run): Hint[] {
  // A started run that waits for its change groups needs no start. Only its reason distinguishes it.
  if (run.admission === 'manual' && !run.reason.includes('change group')) {
    return [{ text: 'The run starts when a user starts it.', needs: 'startRun', group: run.group, command: `drover runs start ${run.id}`, action: 'start' }]
  }
  if (run.changegroups.length > 0) {
    return [
      { text: 'See which runs hold the slots of its change groups.', needs: 'listChangeGroups', command: `drover changegroups list ${run.changegroups.map(quoted).join(' ')}`, page: '/operations/changegroups' },
      { text: 'Raise the limit of a change group.', needs: 'putChangeGroup', command: 'drover changegroups set NAME --max-running N' },
    ]
  }
  const path = /change group (group:[^\s:;]+)/.exec(run.reason)?.[1]
  if (run.reason.includes('change group group:')) {
    return [{ text: 'Raise the limit of the group.', needs: 'putChangeGroup', command: `drover changegroups set ${path ? quoted(path) : 'group:PATH'} --max-running N`, page: '/operations/changegroups' }]
  }
  return []
}

function taskHints(run: Run, session: Session): Hint[] {
  const approve: string[] = []
  const groups = new Set<string>()
  const pools = new Map<string, string>()
  for (const [name, task] of byNumber(run.tasks, (t) => t.status === 'waiting_approval' || t.status === 'waiting_changegroup' || t.status === 'queued')) {
    if (task.status === 'waiting_changegroup') for (const g of task.changegroups ?? []) groups.add(g.name)
    if (task.status === 'waiting_approval' && !decisionRefusal(session, 'approveTask', run.group, task.approval)) approve.push(name)
    if (task.status === 'queued' && !pools.has(task.pool)) pools.set(task.pool, task.reason)
  }
  const hints: Hint[] = []
  if (approve.length > 0) {
    const names = approve.length > maxNamed ? 'TASK ...' : approve.map(quoted).join(' ')
    hints.push({ text: approve.length === 1 ? 'A task waits for approval.' : `${approve.length} tasks wait for approval.`, needs: 'approveTask', group: run.group, command: `drover runs approve ${run.id} ${names}`, approve })
  }
  if (groups.size > 0) {
    const names = groups.size > maxNamed ? '' : [...groups].map((name) => ` ${quoted(name)}`).join('')
    hints.push(
      { text: 'See who holds the slots of the change groups.', needs: 'listChangeGroups', command: `drover changegroups list${names}`, page: '/operations/changegroups' },
      { text: 'Raise the limit of a change group.', needs: 'putChangeGroup', command: `drover changegroups set ${groups.size === 1 ? quoted([...groups][0]!) : 'NAME'} --max-running N` },
    )
  }
  for (const [pool, reason] of pools) hints.push(...poolHints(pool, reason, run.group))
  return hints
}

/**
 * poolHints reads the reason as the gateway writes it: docs/executors.md lists its forms. To start an executor is no operation of the
 * API; the users who may drain one are those who run them.
 */
function poolHints(pool: string, reason: string, group: string): Hint[] {
  const name = quoted(pool)
  if (reason.includes('Temporal is out of reach')) return [{ text: 'No executor receives tasks until Temporal answers the gateway again.', needs: 'getRun', group, page: '/operations' }]
  const hints: Hint[] = []
  const paused = /fleet (\S+): it is paused/.exec(reason)?.[1]
  if (paused) hints.push({ text: `The fleet ${paused} is paused.`, needs: 'resumeFleet', command: `drover fleets resume ${quoted(paused)}`, page: '/operations/fleets' })
  if (/of at most \d+ tasks of pool/.test(reason)) {
    hints.push({ text: `The pool ${pool} runs as many tasks as its limit allows.`, needs: 'putPool', command: `drover pools set ${name} --max-running N`, page: '/operations/pools' })
  } else if (/^(no executor of pool|all executors of pool)/.test(reason) && !/; (instance|\d+ instances?) /.test(reason)) {
    const draining = reason.includes('draining')
    const labels = /^no executor of pool \S+ has (.+?)(;|$)/.exec(reason)?.[1]
    hints.push({
      text: labels ? `No executor of the pool ${pool} has ${labels}: start one with it.` : draining ? `Resume an executor of the pool ${pool}, or start another.` : `Start an executor of the pool ${pool}.`,
      needs: 'drainExecutor',
      command: draining ? 'drover executors resume ID' : `drover start executor --pool ${name} --token-file FILE --gateway-url URL`,
      page: '/operations',
    })
  } else if (/^(all \d+ slots|the only slot) of pool/.test(reason)) {
    hints.push({ text: `All slots of the pool ${pool} are in use: add an executor, or slots to one.`, needs: 'drainExecutor', command: `drover start executor --pool ${name} --slots N --token-file FILE --gateway-url URL`, page: '/operations' })
  }
  hints.push({ text: `See the executors of the pool ${pool}.`, needs: 'getPool', group, command: `drover pools get ${name}`, page: '/operations/pools' })
  return hints
}

function failedHints(run: Run): Hint[] {
  const hints: Hint[] = []
  for (const [name] of byNumber(run.tasks, (t) => kindOf(t) === 'failed' && t.executor !== '').slice(0, maxFailed)) {
    hints.push({ text: `Read the log of ${name}.`, needs: 'getTaskLogs', group: run.group, command: `drover logs ${run.id} ${quoted(name)}`, logs: name })
  }
  hints.push({ text: 'Run what failed again.', needs: 'restartRun', group: run.group, command: `drover runs restart ${run.id} --from failed`, action: 'restart-failed' })
  return hints
}

/** byNumber returns some of the tasks, in their order. It is called for each change of a run, which may have 10,000 tasks. */
function byNumber(tasks: Run['tasks'], of: (task: Task) => boolean): [string, Task][] {
  const some: [string, Task][] = []
  for (const name in tasks) if (of(tasks[name]!)) some.push([name, tasks[name]!])
  return some.sort(([, a], [, b]) => a.number - b.number)
}
