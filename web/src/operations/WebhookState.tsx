import { State } from '../components/State'
import { Time } from '../components/Time'
import { useNow } from '../lib/time'
import type { Schemas } from './queries'

/** WebhookState says whether a webhook delivers. */
export function WebhookState({ webhook: w }: { webhook: Schemas['Webhook'] }) {
  const now = useNow()
  const next = w.next_attempt_at && Date.parse(w.next_attempt_at) > now ? <>, next <Time at={w.next_attempt_at} /></> : ', tries again'
  if (!w.enabled) return <State kind="quiet">disabled</State>
  if (w.failures > 0) return <State kind="failed">{w.failures === 1 ? '1 failed attempt' : `${w.failures} failed attempts`}{next}</State>
  return <State kind="success">{w.last_attempt_at ? 'delivers' : 'nothing to deliver yet'}</State>
}
