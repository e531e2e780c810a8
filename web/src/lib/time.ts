import { useSyncExternalStore } from 'react'

import { clock } from './clock'

export { duration } from './duration'

/** between returns the time from start to end, or to now. It is never negative: the clocks of two hosts differ. */
export function between(start?: string, end?: string, now = clock.now()): number | undefined {
  if (!start) return undefined
  return Math.max(0, (end ? Date.parse(end) : now) - Date.parse(start))
}

const seconds = {
  now: clock.now(),
  readers: new Set<() => void>(),
  timer: 0,
  tick() {
    seconds.now = clock.now()
    for (const read of seconds.readers) read()
  },
  /** read returns the last second, or the present time if that has jumped: the server has told its time, or the page was asleep. */
  read() {
    const now = clock.now()
    if (Math.abs(now - seconds.now) > 2000) seconds.now = now
    return seconds.now
  },
  subscribe(reader: () => void) {
    seconds.readers.add(reader)
    if (seconds.readers.size === 1) {
      seconds.now = clock.now()
      seconds.timer = window.setInterval(seconds.tick, 1000)
    }
    return () => {
      seconds.readers.delete(reader)
      if (seconds.readers.size === 0) window.clearInterval(seconds.timer)
    }
  },
}

/** useNow is the time of the server, once a second or after more milliseconds, from one timer for the whole page. */
export function useNow(every = 1): number {
  return useSyncExternalStore(seconds.subscribe, () => seconds.read() - (seconds.read() % every))
}

/** Where times are shown: local time, or UTC. */
export type Zone = 'local' | 'utc'

const zones = {
  value: (localStorage.getItem('zone') === 'utc' ? 'utc' : 'local') as Zone,
  readers: new Set<() => void>(),
}

export function setZone(zone: Zone) {
  zones.value = zone
  localStorage.setItem('zone', zone)
  for (const read of zones.readers) read()
}

export function useZone(): Zone {
  return useSyncExternalStore(
    (reader) => {
      zones.readers.add(reader)
      return () => zones.readers.delete(reader)
    },
    () => zones.value,
  )
}

export function timestamp(time: string | undefined, zone: Zone): string {
  if (!time) return ''
  return new Intl.DateTimeFormat('sv-SE', { dateStyle: 'short', timeStyle: 'medium', timeZone: zone === 'utc' ? 'UTC' : undefined }).format(new Date(time))
}

/** ago prints how long ago a time was, in one unit. */
export function ago(time: string, now: number): string {
  const past = Math.round((now - Date.parse(time)) / 1000)
  if (past < 5) return 'now'
  if (past < 60) return `${past} s ago`
  if (past < 3600) return `${Math.floor(past / 60)} min ago`
  if (past < 86400) return `${Math.floor(past / 3600)} h ago`
  return `${Math.floor(past / 86400)} d ago`
}

/** until prints how far ahead a time is, in one unit. */
export function until(time: string, now: number): string {
  const ahead = Math.round((Date.parse(time) - now) / 1000)
  if (ahead < 1) return 'now'
  if (ahead < 60) return `in ${ahead} s`
  if (ahead < 3600) return `in ${Math.round(ahead / 60)} min`
  if (ahead < 86400) return `in ${Math.floor(ahead / 3600)} h`
  return `in ${Math.floor(ahead / 86400)} d`
}
