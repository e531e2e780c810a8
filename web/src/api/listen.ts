import type { Event } from './client'

type Listener = (events: readonly Event[]) => void

const listeners = new Set<Listener>()

/** listen calls a function with the events of the page's stream, until the returned function is called. */
export function listen(listener: Listener): () => void {
  listeners.add(listener)
  return () => {
    listeners.delete(listener)
  }
}

export function announce(events: readonly Event[]) {
  for (const listener of listeners) listener(events)
}
