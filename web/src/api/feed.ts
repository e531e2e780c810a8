import type { Event } from './client'
import { eventOf } from './eventOf'
import { pauseAfter } from './pause'
import { isTemporary } from './problem'
import { openStream, type Message } from './stream'

export interface FeedHandlers {
  /** The stream is open. What was read before may be older than its events. */
  onLive: () => void
  /** The stream has ended or was refused. It is opened again after a pause. */
  onLost: (error: unknown) => void
  /** An event, or undefined for one that cannot be read. */
  onEvent: (event: Event | undefined) => void
}

export interface Feed {
  close: () => void
  /** again ends a pause. */
  again: () => void
}

const eventTypes: ReadonlySet<string> = new Set(['run', 'task', 'stage'])

/**
 * openFeed keeps one stream of events open. A stream that breaks is resumed with the last id that it sent, unless the events
 * after it are gone.
 */
export function openFeed(address: string, { onLive, onLost, onEvent }: FeedHandlers): Feed {
  let retry: ReturnType<typeof setTimeout> | undefined
  let stop = () => {}
  let failures = 0
  let last: string | undefined

  const receive = ({ type, data, id }: Message) => {
    if (type === 'problem') return end(undefined, false) // the gateway cannot go on
    if (type !== '' && !eventTypes.has(type)) return
    if (id !== '') last = id
    if (type === '') return
    const event = eventOf(data)
    if (event) failures = 0
    onEvent(event)
  }
  const end = (error: unknown, steady: boolean) => {
    stop()
    if (!isTemporary(error)) last = undefined // the events after it are gone
    failures = steady ? 1 : failures + 1
    retry = setTimeout(open, pauseAfter(failures + 1))
    onLost(error)
  }
  const open = () => {
    retry = undefined
    stop = openStream(address, { onOpen: onLive, onMessage: receive, onEnd: end }, last)
  }
  open()
  return {
    close() {
      clearTimeout(retry)
      stop()
    },
    again() {
      if (retry === undefined) return
      clearTimeout(retry)
      open()
    },
  }
}
