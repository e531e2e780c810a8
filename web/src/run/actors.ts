import type { Run } from '../api/client'
import type { components } from '../api/schema.gen'

type ClientAction = components['schemas']['ClientAction']

const verbs: Record<string, string> = { create: 'created', start: 'started', cancel: 'cancelled', stop: 'stopped', approve: 'approved', reject: 'rejected' }

export const verbOf = (action: string): string => verbs[action] ?? action

/** actorOf names who made a call. Drover itself has no name. */
export const actorOf = (actor: string): string => actor || 'Drover'

/** lastActors returns for each kind of action on the whole run who did it last. */
export function lastActors(run: Pick<Run, 'actions'>): ClientAction[] {
  const last = new Map<string, ClientAction>()
  for (const a of run.actions ?? []) if (a.task === undefined && a.action !== 'create') last.set(a.action, a)
  return [...last.values()]
}
