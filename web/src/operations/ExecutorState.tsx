import { State } from '../components/State'
import type { Schemas } from './queries'

const kinds = { online: 'success', draining: 'waiting_approval', offline: 'failed', removed: 'quiet' } as const

export function ExecutorState({ executor }: { executor: Schemas['Executor'] }) {
  return <State kind={kinds[executor.state]}>{executor.drained ? 'drained' : executor.state}</State>
}
