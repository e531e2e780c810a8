import { Link } from '@tanstack/react-router'

import { Empty } from '../components/Command'
import { Loaded } from '../components/Loaded'
import { Table } from '../components/Table'
import { Time } from '../components/Time'
import { useLiveQuery } from './live'
import { webhooksQuery } from './queries'
import { WebhookActions } from './WebhookActions'
import { WebhookState } from './WebhookState'

/** Webhooks lists the webhooks and notifications with the state of their delivery. */
export function Webhooks() {
  const query = useLiveQuery(webhooksQuery)
  return (
    <>
      <h1 className="visually-hidden">Webhooks</h1>
      <Loaded query={query}>
        {(webhooks) => (
          <Table
            label="Webhooks" rows={webhooks} idOf={(w) => w.name} empty={<Empty title="There are no webhooks." needs="putWebhook" text="drover webhooks apply -f webhook.yaml">A webhook delivers events to a receiver, or tells people by Slack, Teams or e-mail</Empty>}
            columns={[
              { title: 'Webhook', cell: (w) => <><Link to="/operations/webhooks/$name" params={{ name: w.name }}><strong>{w.name}</strong></Link><span className="reason mono">{w.url}</span></> },
              { title: 'Format', cell: (w) => w.format ?? 'drover' },
              { title: 'State', cell: (w) => <><WebhookState webhook={w} />{w.last_error && <span className="reason">{w.last_error}</span>}</> },
              { title: 'Last attempt', cell: (w) => <Time at={w.last_attempt_at} none="never" /> },
              { title: 'Delivered up to', number: true, cell: (w) => w.delivered },
              { title: 'Actions', cell: (w) => <span className="actions"><WebhookActions webhook={w} /></span> },
            ]}
          />
        )}
      </Loaded>
    </>
  )
}
