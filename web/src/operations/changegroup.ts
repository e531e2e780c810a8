import type { Schemas } from './queries'

/** What happens to a run that finds no free slot. */
export const changeGroupPolicies: Record<Schemas['OnBusy'], string> = {
  queue: 'the run waits',
  stop_running: 'the oldest running runs are stopped',
  cancel_queued: 'the waiting runs are cancelled',
  reject: 'the run is refused',
}
