import type { components } from '../api/schema.gen'
import { below } from '../lib/base'
import type { Zone } from '../lib/time'

export type AuditRecord = components['schemas']['AuditRecord']
export type AuditResult = components['schemas']['AuditResult']

/** AuditFilters are the filters of the audit log, as the URL and the API have them. Times are RFC 3339. */
export interface AuditFilters {
  subject?: string
  action?: string
  resource?: string
  group?: string
  result?: AuditResult
  from?: string
  to?: string
}

export const results: AuditResult[] = ['success', 'failed', 'refused', 'unknown']

const names = ['subject', 'action', 'resource', 'group', 'result', 'from', 'to'] as const

/** readFilters takes the filters from a URL, which users write too: what is not valid is left out. */
export function readFilters(search: Record<string, unknown>): AuditFilters {
  const out: Record<string, string> = {}
  for (const name of names) {
    const value = search[name]
    const text = typeof value === 'string' || typeof value === 'number' ? String(value) : ''
    if (text === '') continue
    if (name === 'result' && !results.includes(text as AuditResult)) continue
    if ((name === 'from' || name === 'to') && Number.isNaN(Date.parse(text))) continue
    out[name] = text
  }
  return out
}

/** exportPath is the link to all records that match, as JSON lines. */
export function exportPath(filters: AuditFilters): string {
  const query = new URLSearchParams()
  for (const name of names) {
    const value = filters[name]
    if (value) query.set(name, value)
  }
  return below(`/api/v1/audit/export${query.size > 0 ? `?${query}` : ''}`)
}

/** toInput is a time in the form of an input of type datetime-local. */
export function toInput(time: string | undefined, zone: Zone): string {
  if (!time) return ''
  const at = new Date(time)
  const shifted = zone === 'utc' ? at : new Date(at.getTime() - at.getTimezoneOffset() * 60_000)
  return shifted.toISOString().slice(0, 16)
}

/** fromInput is the time that a user gave in such an input, if it is complete. */
export function fromInput(value: string, zone: Zone): string | undefined {
  const at = new Date(zone === 'utc' ? `${value}Z` : value)
  return value === '' || Number.isNaN(at.getTime()) ? undefined : at.toISOString()
}

/** actionLabel makes an operationId readable: "stopRun" is "stop run". */
export function actionLabel(action?: string): string {
  if (!action) return 'request'
  return action.replace(/[A-Z]+(?=[A-Z][a-z]|$)|[A-Z]/g, (word) => ` ${word.length > 1 ? word : word.toLowerCase()}`).trim()
}

/** rightsOf makes the details of a record readable: the rights that the call gives, with a line for each part. */
export function rightsOf(details: string): string {
  const text = (v: unknown) => (typeof v === 'string' ? v : JSON.stringify(v))
  try {
    const rights: unknown = JSON.parse(details)
    if (Array.isArray(rights)) return rights.map(text).join('\n')
    if (rights && typeof rights === 'object') return Object.entries(rights).map(([name, v]) => `${name}: ${text(v)}`).join('\n')
  } catch {
    // an earlier version cut it off
  }
  return details
}

/** resourceOf is the filter that selects the resource of a record. */
export function resourceOf(record: AuditRecord): string | undefined {
  const { kind, id } = record.resource ?? {}
  return kind && id ? `${kind}/${id}` : kind
}
