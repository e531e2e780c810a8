import type { Run, Status, Task } from '../api/client'

/** The statuses after which a task does not change. */
export const finalStatuses: ReadonlySet<Status> = new Set(['success', 'failed', 'skipped', 'cancelled', 'stopped'])

/** A Kind is what a page shows of a task: its status, or `warnings` if it failed and may. Runs that succeeded with such tasks have it too. */
export type Kind = Status | 'warnings'

export const kindOf = (task: Pick<Task, 'status' | 'allow_failure'>): Kind => (task.status === 'failed' && task.allow_failure ? 'warnings' : task.status)

/** The kinds in the order of urgency: what a reader looks for first. */
export const statusOrder: readonly Kind[] = [
  'failed', 'stopped', 'running', 'waiting_approval', 'waiting_changegroup', 'queued', 'not_started', 'warnings', 'success', 'skipped', 'cancelled',
]

export const statusLabels: Record<Kind, string> = {
  not_started: 'not started',
  waiting_approval: 'waits for approval',
  waiting_changegroup: 'waits for a change group',
  queued: 'queued',
  running: 'running',
  success: 'success',
  failed: 'failed',
  warnings: 'failed (allowed)',
  skipped: 'skipped',
  cancelled: 'cancelled',
  stopped: 'stopped',
}

/** A sign for each kind, so that no reader depends on colours. */
export const statusSigns: Record<Kind, string> = {
  not_started: '·', waiting_approval: '?', waiting_changegroup: '⋯', queued: '…', running: '▶', success: '✓', failed: '✕', warnings: '!', skipped: '»', cancelled: '–', stopped: '■',
}

/** outcome returns the phase and result of a run as one word. */
export function outcome(run: Pick<Run, 'phase' | 'result' | 'warnings' | 'stop_requested' | 'task_counts'>): { kind: Kind; label: string } {
  switch (run.phase) {
    case 'setup_error': return { kind: 'failed', label: 'setup error' }
    case 'queued': return { kind: 'queued', label: 'queued' }
    case 'running': return run.stop_requested ? { kind: 'stopped', label: 'stopping' } : { kind: 'running', label: 'running' }
    case 'cancelled': return { kind: 'cancelled', label: 'cancelled' }
    case 'finished':
      if (run.result === 'success') return warned(run) ? { kind: 'warnings', label: 'success with warnings' } : { kind: 'success', label: 'success' }
      return run.result === 'stopped' ? { kind: 'stopped', label: 'stopped' } : { kind: 'failed', label: 'failed' }
  }
}

/** warned says whether a run succeeded with tasks that failed and may. Lists have only the counts of its tasks. */
const warned = (run: Pick<Run, 'phase' | 'result' | 'warnings' | 'task_counts'>) => run.phase === 'finished' && run.result === 'success' && (!!run.warnings?.length || !!run.task_counts?.failed)

export type Counts = Partial<Record<Kind, number>>

export function countTasks(tasks: Iterable<Task>): Counts {
  const counts: Counts = {}
  for (const t of tasks) counts[kindOf(t)] = (counts[kindOf(t)] ?? 0) + 1
  return counts
}

/** countsOf returns the counts of a run in a list. All failures of a run that succeeded are allowed. */
export function countsOf(run: Pick<Run, 'phase' | 'result' | 'warnings' | 'task_counts'>): Counts {
  const counts: Counts = run.task_counts ?? {}
  if (!warned(run)) return counts
  const { failed, ...others } = counts
  return { ...others, warnings: failed }
}

/** worst returns the most urgent of several tasks. */
export function worst(counts: Counts): Kind {
  return statusOrder.find((s) => counts[s]) ?? 'not_started'
}
