import type { Api } from '../api/client'
import type { BulkAction } from './bulk'

/** actOn does an action with one run, and returns the id of the run that it created. A restart with the same key creates no second run. */
export async function actOn(api: Api, action: BulkAction, id: string, key: string): Promise<string | undefined> {
  const params = { path: { id } }
  switch (action) {
    case 'start': await api.POST('/api/v1/runs/{id}/start', { params, body: {} }); return undefined
    case 'stop': await api.POST('/api/v1/runs/{id}/stop', { params, body: { force: false, cancel_queued: true } }); return undefined
    case 'kill': await api.POST('/api/v1/runs/{id}/stop', { params, body: { force: true, cancel_queued: false } }); return undefined
    case 'delete': await api.DELETE('/api/v1/runs/{id}', { params, body: {} }); return undefined
    default: {
      const { data } = await api.POST('/api/v1/runs/{id}/restart', { params: { ...params, header: { 'Idempotency-Key': key } }, body: { from: action === 'restart' ? 'start' : 'failed' } })
      return data?.id
    }
  }
}
