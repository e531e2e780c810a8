import { ago, timestamp, until, useNow, useZone } from '../lib/time'
import { timestampIn } from '../lib/zone'

/** Time shows how far away a time is, and the time itself on hover. */
export function Time({ at, none }: { at?: string; none?: string }) {
  const now = useNow()
  const zone = useZone()
  if (!at) return none ? <span className="muted">{none}</span> : null
  return <time dateTime={at} title={timestamp(at, zone)}>{Date.parse(at) > now + 1000 ? until(at, now) : ago(at, now)}</time>
}

/** Stamp shows a time as a date, and how far away it is. A time that belongs to a time zone is shown in that, with its name. */
export function Stamp({ at, none, of }: { at?: string; none?: string; of?: { timezone?: string } }) {
  const zone = useZone()
  if (!at) return none ? <span className="muted">{none}</span> : null
  return <span><time dateTime={at} title={of && timestamp(at, zone)}>{of ? timestampIn(at, of.timezone || 'UTC') : timestamp(at, zone)}</time> <span className="muted">(<Time at={at} />)</span></span>
}
