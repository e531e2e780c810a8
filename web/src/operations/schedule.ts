import { span } from '../lib/span'
import type { Schemas } from './queries'

type Schedule = Schemas['Schedule']

/** when prints the times of a schedule. */
export function when(s: Pick<Schedule, 'cron' | 'intervals' | 'timezone'>): string {
  const times = [...(s.cron ?? []), ...(s.intervals ?? []).map((i) => `every ${span(i.every)}${i.offset && i.offset !== '0s' ? `, shifted by ${span(i.offset)}` : ''}`)]
  return `${times.join('; ') || 'only when triggered'}${s.timezone ? ` (${s.timezone})` : ''}`
}

/** What happens to a firing while the run of the previous one is open. */
export const overlaps: Record<Schemas['Overlap'], string> = {
  skip: 'skip the firing',
  buffer_one: 'start it after that run; keep one waiting',
  buffer_all: 'start all after one another',
  cancel_other: 'cancel that run',
  terminate_other: 'terminate that run',
  allow_all: 'start it beside that run',
}
