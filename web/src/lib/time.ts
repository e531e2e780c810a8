import { useSyncExternalStore } from 'react'

/** duration prints a length of time in its two largest units. */
export function duration(millis: number): string {
  if (millis < 1000) return `${Math.max(0, Math.round(millis))} ms`
  const seconds = millis / 1000
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`
  const hours = Math.floor(minutes / 60)
  if (hours < 24) return `${hours} h ${minutes % 60} min`
  return `${Math.floor(hours / 24)} d ${hours % 24} h`
}

export function between(start?: string, end?: string, now = Date.now()): number | undefined {
  if (!start) return undefined
  return (end ? Date.parse(end) : now) - Date.parse(start)
}

const clock = {
  now: Date.now(),
  readers: new Set<() => void>(),
  timer: 0,
  subscribe(reader: () => void) {
    clock.readers.add(reader)
    if (clock.readers.size === 1) {
      clock.timer = window.setInterval(() => {
        clock.now = Date.now()
        for (const read of clock.readers) read()
      }, 1000)
    }
    return () => {
      clock.readers.delete(reader)
      if (clock.readers.size === 0) window.clearInterval(clock.timer)
    }
  },
}

/** useNow is the time, once a second, from one timer for the whole page. */
export function useNow(): number {
  return useSyncExternalStore(clock.subscribe, () => clock.now)
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
  const seconds = Math.round((now - Date.parse(time)) / 1000)
  if (seconds < 5) return 'now'
  if (seconds < 60) return `${seconds} s ago`
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`
  return `${Math.floor(seconds / 86400)} d ago`
}

/** until prints how far ahead a time is, in one unit. */
export function until(time: string, now: number): string {
  const seconds = Math.round((Date.parse(time) - now) / 1000)
  if (seconds < 1) return 'now'
  if (seconds < 60) return `in ${seconds} s`
  if (seconds < 3600) return `in ${Math.round(seconds / 60)} min`
  if (seconds < 86400) return `in ${Math.floor(seconds / 3600)} h`
  return `in ${Math.floor(seconds / 86400)} d`
}
