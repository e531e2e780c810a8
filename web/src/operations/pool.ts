import type { Schemas } from './queries'

/** PoolDraft is a pool as the form has it. Numbers and labels are texts until they are sent. */
export interface PoolDraft {
  maxRunning: string
  labels: string
  default: boolean
  exec: 'allowed' | 'forbidden'
  privileged: boolean
  shared: boolean
  memory: string
}

export function draftOf(pool: Schemas['Pool']): PoolDraft {
  return {
    maxRunning: String(pool.max_running ?? 0),
    labels: Object.entries(pool.labels).map(([key, value]) => `${key}=${value}`).join('\n'),
    default: pool.default,
    exec: pool.exec ?? 'allowed',
    privileged: pool.privileged,
    shared: pool.shared,
    memory: pool.flavor?.memory ?? '',
  }
}

/**
 * specOf returns the whole pool with what the form changed: a PUT replaces a pool, but keeps
 * lists and maps that are absent.
 */
export function specOf(pool: Schemas['Pool'], draft: PoolDraft): Schemas['PoolSpec'] {
  const flavor = { ...pool.flavor, memory: draft.memory.trim() || undefined }
  return {
    driver: pool.driver,
    os: pool.os || undefined,
    arch: pool.arch || undefined,
    labels: labelsOf(draft.labels),
    max_running: Number(draft.maxRunning),
    privileged: draft.privileged,
    shared: draft.shared,
    default: draft.default,
    exec: draft.exec,
    flavor: Object.values(flavor).some((v) => v !== undefined && v !== '') ? flavor : undefined,
    image: pool.image,
    kubernetes: pool.kubernetes,
  }
}

/** labelsOf reads labels, one a line, such as zone=a. A label without a value has an empty one. */
export function labelsOf(text: string): Record<string, string> {
  const labels: Record<string, string> = {}
  for (const line of text.split('\n')) {
    if (line.trim() === '') continue
    const at = line.indexOf('=')
    labels[(at < 0 ? line : line.slice(0, at)).trim()] = at < 0 ? '' : line.slice(at + 1).trim()
  }
  return labels
}
