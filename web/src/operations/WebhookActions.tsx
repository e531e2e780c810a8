import { useNavigate } from '@tanstack/react-router'

import type { Api } from '../api/client'
import { Act } from '../components/Act'
import type { Schemas } from './queries'
import { specOf } from './webhook'

/** WebhookActions retry, test, enable, disable and delete a webhook. */
export function WebhookActions({ webhook: w, all }: { webhook: Schemas['Webhook']; all?: boolean }) {
  const navigate = useNavigate()
  const params = { path: { name: w.name } }
  const put = (change: Partial<Schemas['WebhookSpec']>) => (api: Api) => api.PUT('/api/v1/webhooks/{name}', { params, body: specOf(w, change) })
  return (
    <>
      {/* The gateway retries a failed delivery at once when the webhook is put. */}
      {w.enabled && w.failures > 0 && <Act label="Retry now" needs="putWebhook" primary changes={['webhooks']} act={put({})} />}
      <Act when={w.enabled} label="Test" needs="testWebhook" title={`Test ${w.name}`} changes={['webhooks']} confirm={<p>A sample is sent once to the receiver.</p>} act={(api) => api.POST('/api/v1/webhooks/{name}/test', { params })} />
      <Act when={w.enabled} label="Disable" needs="putWebhook" title={`Disable ${w.name}`} changes={['webhooks']} confirm={<p>Nothing is delivered until you enable it. Its position stays: the events of the meantime are delivered then, as far as the retention keeps them.</p>} act={put({ enabled: false })} />
      <Act when={!w.enabled} label="Enable" needs="putWebhook" changes={['webhooks']} act={put({ enabled: true })} />
      {all && (
        <Act
          label="Delete" needs="deleteWebhook" title={`Delete ${w.name}`} danger changes={['webhooks']} confirm={<p>The webhook, its secret and its position are deleted. Events that it has not delivered are never delivered.</p>}
          act={(api) => api.DELETE('/api/v1/webhooks/{name}', { params })} onDone={() => void navigate({ to: '/operations/webhooks' })}
        />
      )}
    </>
  )
}
