import { getRouteApi } from '@tanstack/react-router'

import { Loaded } from '../components/Loaded'
import { State } from '../components/State'
import { Stamp, Time } from '../components/Time'
import { Details } from './Details'
import { useLiveQuery } from './live'
import { webhookQuery, type Schemas } from './queries'
import { Section } from './Section'
import { Title } from './Title'
import { WebhookActions } from './WebhookActions'
import { WebhookState } from './WebhookState'

const route = getRouteApi('/operations/webhooks/$name')
const list = { to: '/operations/webhooks', label: 'Webhooks' } as const

/** WebhookPage shows what a webhook delivers, and how its deliveries and tests go. Its secret is never shown. */
export function WebhookPage() {
  const { name } = route.useParams()
  const query = useLiveQuery(webhookQuery(name))
  return (
    <>
      {!query.data && <Title name={name} list={list} />}
      <Loaded query={query}>{(webhook) => <Shown webhook={webhook} />}</Loaded>
    </>
  )
}

function Shown({ webhook: w }: { webhook: Schemas['Webhook'] }) {
  return (
    <>
      <Title name={w.name} list={list} actions={<WebhookActions webhook={w} all />}><WebhookState webhook={w} /></Title>
      {w.last_error && <div className="notice failed" role="status"><strong>The last attempt failed <Time at={w.last_attempt_at} />.</strong><div>{w.last_error}</div></div>}
      <Details
        values={{
          Receiver: <span className="mono">{w.url}</span>,
          Format: w.format ?? 'drover',
          Events: w.events.map((e) => e.replace('_', ' ')).join(', '),
          Groups: [w.group, ...(w.groups ?? [])].filter(Boolean).join(', ') || 'all',
          Results: w.results?.length ? w.results.join(', ') : 'all',
          Run: w.run,
          From: w.email?.from,
          To: w.email?.to.join(', '),
          'Delivered up to': `event ${w.delivered}`,
          'Last attempt': <Stamp at={w.last_attempt_at} none="never" />,
          'Next attempt': w.next_attempt_at && <Stamp at={w.next_attempt_at} />,
          'Failed attempts in a row': w.failures > 0 && String(w.failures),
          'Last test': <Test of={w.test} />,
          Created: <Stamp at={w.created_at} />,
          Changed: w.updated_at !== w.created_at && <Stamp at={w.updated_at} />,
        }}
      />
      {w.template && <Section title="Texts"><pre className="code" tabIndex={0}>{JSON.stringify(w.template, null, 2)}</pre></Section>}
    </>
  )
}

function Test({ of: test }: { of?: Schemas['WebhookTest'] }) {
  if (!test || test.requested === 0) return <span className="muted">none</span>
  if (test.done < test.requested) return <State kind="running">is being sent</State>
  return (
    <>
      <State kind={test.error ? 'failed' : 'success'}>{test.error ? 'not accepted' : 'accepted'} <Time at={test.at} /></State>
      {test.error && <span className="reason">{test.error}</span>}
    </>
  )
}
