import type { Schemas } from './queries'

type Webhook = Schemas['Webhook']

/** The events of a webhook that names none: all of its format. */
const everyEvent = { drover: ['run', 'task', 'stage', 'exec', 'approval_wanted'], message: ['run', 'approval_wanted'] }

/**
 * specOf returns a webhook as a PUT takes it. Its secret is missing, as in all answers, and so stays as it is; a shortened
 * URL stays too.
 */
export function specOf(w: Webhook, change: Partial<Schemas['WebhookSpec']> = {}): Schemas['WebhookSpec'] {
  const all = everyEvent[(w.format ?? 'drover') === 'drover' ? 'drover' : 'message']
  return {
    url: w.url,
    format: w.format ?? 'drover',
    events: all.every((e) => (w.events as string[]).includes(e)) ? undefined : w.events,
    group: w.group || undefined,
    groups: w.groups,
    results: w.results,
    run: w.run || undefined,
    email: w.email,
    template: w.template,
    enabled: w.enabled,
    ...change,
  }
}
