import type { Run, Status, Task } from '../api/client'

/** The statuses after which a task does not change. */
export const finalStatuses: ReadonlySet<Status> = new Set(['success', 'failed', 'skipped', 'cancelled', 'stopped'])

/** Statuses in the order of urgency: what a reader looks for first. */
export const statusOrder: readonly Status[] = [
  'failed', 'stopped', 'running', 'waiting_approval', 'queued', 'not_started', 'success', 'skipped', 'cancelled',
]

export const statusLabels: Record<Status, string> = {
  not_started: 'not started',
  waiting_approval: 'waits for approval',
  queued: 'queued',
  running: 'running',
  success: 'success',
  failed: 'failed',
  skipped: 'skipped',
  cancelled: 'cancelled',
  stopped: 'stopped',
}

/** A sign for each status, so that no reader depends on colours. */
export const statusSigns: Record<Status, string> = {
  not_started: '·', waiting_approval: '?', queued: '…', running: '▶', success: '✓', failed: '✕', skipped: '»', cancelled: '–', stopped: '■',
}

/** outcome returns the phase and result of a run as one word. */
export function outcome(run: Pick<Run, 'phase' | 'result' | 'warnings' | 'stop_requested'>): { kind: Status | 'warnings'; label: string } {
  switch (run.phase) {
    case 'setup_error': return { kind: 'failed', label: 'setup error' }
    case 'queued': return { kind: 'queued', label: 'queued' }
    case 'running': return run.stop_requested ? { kind: 'stopped', label: 'stopping' } : { kind: 'running', label: 'running' }
    case 'cancelled': return { kind: 'cancelled', label: 'cancelled' }
    case 'finished':
      if (run.result === 'success') return run.warnings?.length ? { kind: 'warnings', label: 'success with warnings' } : { kind: 'success', label: 'success' }
      return run.result === 'stopped' ? { kind: 'stopped', label: 'stopped' } : { kind: 'failed', label: 'failed' }
  }
}

export type Counts = Partial<Record<Status, number>>

export function countTasks(tasks: Iterable<Task>): Counts {
  const counts: Counts = {}
  for (const t of tasks) counts[t.status] = (counts[t.status] ?? 0) + 1
  return counts
}

/** worst returns the most urgent status of several tasks. */
export function worst(counts: Counts): Status {
  return statusOrder.find((s) => counts[s]) ?? 'not_started'
}
