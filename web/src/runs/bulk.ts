import type { Run } from '../api/client'
import type { Operation } from '../lib/permissions'

/** What can be done with several runs at once. */
export type BulkAction = 'start' | 'stop' | 'kill' | 'restart' | 'restart-failed' | 'delete'

/** The operations of the API that do them. */
export const operationOf: Readonly<Record<BulkAction, Operation>> = {
  start: 'startRun', stop: 'stopRun', kill: 'stopRun', restart: 'restartRun', 'restart-failed': 'restartRun', delete: 'deleteRun',
}

export const over = (run: Pick<Run, 'phase'>) => run.phase === 'finished' || run.phase === 'cancelled' || run.phase === 'setup_error'

/** appliesTo says whether an action can be done with a run now. */
export function appliesTo(action: BulkAction, run: Pick<Run, 'phase' | 'result' | 'admission' | 'stop_requested' | 'warnings' | 'task_counts'>): boolean {
  switch (action) {
    case 'start': return run.phase === 'queued' && run.admission === 'manual'
    case 'stop': return run.phase === 'queued' || (run.phase === 'running' && !run.stop_requested)
    case 'kill': return run.phase === 'running'
    case 'restart': return over(run)
    // In lists, the counts tell a success with warnings.
    case 'restart-failed': return run.phase === 'finished' && (run.result !== 'success' || !!run.warnings?.length || !!run.task_counts?.failed)
    case 'delete': return over(run)
  }
}

/** The runs with which an action can be done now, by whether the user may do it. */
export interface Fitting {
  may: readonly Run[]
  mayNot: readonly Run[]
  /** What the user lacks for those: of the first if it differs. */
  refusal?: string
}

/** fitting returns the runs that an action is for. The refusal says what the user lacks for an operation in a group. */
export function fitting(action: BulkAction, runs: readonly Run[], refusal: (operation: Operation, group: string) => string | undefined): Fitting {
  const may: Run[] = []
  const mayNot: Run[] = []
  let first: string | undefined
  for (const run of runs) {
    if (!appliesTo(action, run)) continue
    const lacks = refusal(operationOf[action], run.group)
    first ??= lacks
    if (lacks === undefined) may.push(run)
    else mayNot.push(run)
  }
  return { may, mayNot, refusal: first }
}

/** inBatches calls a function for each item, at most n at a time. The function handles its own failures. */
export async function inBatches<T>(items: readonly T[], n: number, call: (item: T) => Promise<void>): Promise<void> {
  let next = 0
  await Promise.all(Array.from({ length: Math.min(n, items.length) }, async () => {
    while (next < items.length) await call(items[next++]!)
  }))
}
