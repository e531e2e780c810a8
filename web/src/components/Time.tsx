import { ago, timestamp, until, useNow, useZone } from '../lib/time'

/** Time shows how far away a time is, and the time itself on hover. */
export function Time({ at, none }: { at?: string; none?: string }) {
  const now = useNow()
  const zone = useZone()
  if (!at) return none ? <span className="muted">{none}</span> : null
  return <time dateTime={at} title={timestamp(at, zone)}>{Date.parse(at) > now + 1000 ? until(at, now) : ago(at, now)}</time>
}

/** Stamp shows a time as a date, and how far away it is. */
export function Stamp({ at, none }: { at?: string; none?: string }) {
  const zone = useZone()
  if (!at) return none ? <span className="muted">{none}</span> : null
  return <span><time dateTime={at}>{timestamp(at, zone)}</time> <span className="muted">(<Time at={at} />)</span></span>
}
