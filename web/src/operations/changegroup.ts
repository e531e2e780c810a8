import type { Schemas } from './queries'

/** What happens to a run that finds no free slot. */
export const changeGroupPolicies: Record<Schemas['OnBusy'], string> = {
  queue: 'the run waits',
  stop_running: 'the oldest running runs are stopped',
  cancel_queued: 'the waiting runs are cancelled',
  reject: 'the run is refused',
}

type ChangeGroup = Pick<Schemas['ChangeGroup'], 'max_running' | 'running' | 'queued' | 'holding_tasks' | 'waiting_tasks' | 'held' | 'waiting'>

/** takenOf returns how many slots of a group a task takes: all of them if it needs more than there are. */
export const takenOf = (units: number, limit: number) => (limit === 0 ? units : Math.min(units, limit))

/** heldOf returns how many slots of a group are held. An older gateway does not say it: its lists do, as far as they go. */
export const heldOf = (g: ChangeGroup) => g.held ?? (g.holding_tasks ?? []).reduce((sum, s) => sum + takenOf(s.units, g.max_running), g.running.length)

/** waitingOf returns how many tasks and runs wait in a group. */
export const waitingOf = (g: ChangeGroup) => g.waiting ?? g.queued.length + (g.waiting_tasks?.length ?? 0)
