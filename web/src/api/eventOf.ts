import type { Event } from './client'

/** eventOf reads the data of an event. It returns undefined if that is no event of a run. */
export function eventOf(data: string): Event | undefined {
  try {
    const value: unknown = JSON.parse(data)
    if (typeof value !== 'object' || value === null) return undefined
    const { type, run, time } = value as Partial<Event>
    return typeof type === 'string' && typeof run === 'string' && typeof time === 'string' ? (value as Event) : undefined
  } catch {
    return undefined
  }
}
