import { State, type Kind } from '../components/State'
import type { Schemas } from './queries'

const held: Record<string, string> = {
  max_instances: 'at the maximum of instances',
  quota: 'at the limit of its quota',
  throttle: 'requests are throttled',
  backoff: 'waits after failed requests',
}

/** FleetState says what a fleet does, and what prevents it from more. */
export function FleetState({ fleet: f }: { fleet: Schemas['Fleet'] }) {
  const kind: Kind = f.status.error ? 'failed' : f.mode === 'active' ? 'success' : 'waiting_approval'
  return (
    <>
      <State kind={kind}>{f.status.error ? `${f.mode}, the plugin fails` : f.desired !== undefined && f.mode === 'active' ? `set to ${f.desired}` : f.mode}</State>
      {f.status.error && <span className="reason">{f.status.error}</span>}
      {f.status.held && <span className="reason">{held[f.status.held] ?? f.status.held}</span>}
    </>
  )
}
