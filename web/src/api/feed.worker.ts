import type { Event } from './client'
import { openFeed, type Feed } from './feed'
import { ProblemError } from './problem'

/** What a page tells the worker: that it wants the events of a subject, and that it no longer does. */
export type ToWorker = { type: 'join'; address: string; subject: string } | { type: 'leave' }

/** What the worker tells its pages, at least every 15 seconds. The gateway's refusal has a status. */
export type FromWorker = { type: 'alive' } | { type: 'live' } | { type: 'lost'; status?: number } | { type: 'event'; event: Event | undefined }

// A browser has six connections to a server over HTTP/1.1. The pages of a browser therefore share one stream of events, and
// this worker, of which there is one for all of them, has it.

const pages = new Set<MessagePort>()
let feed: Feed | undefined
let of: string | undefined
let live = false

const tell = (message: FromWorker) => {
  for (const page of pages) page.postMessage(message)
}

setInterval(() => tell({ type: 'alive' }), 15_000)

function join(page: MessagePort, address: string, subject: string) {
  pages.add(page)
  page.postMessage({ type: 'alive' } satisfies FromWorker)
  // The stream of another user's session ends with it.
  if (feed && subject !== of) leaveAll()
  of = subject
  if (feed) {
    if (live) page.postMessage({ type: 'live' } satisfies FromWorker)
    else feed.again() // the page has just reached the gateway
    return
  }
  feed = openFeed(address, {
    onLive() {
      live = true
      tell({ type: 'live' })
    },
    onLost(error) {
      live = false
      tell({ type: 'lost', status: error instanceof ProblemError ? error.status : undefined })
    },
    onEvent: (event) => tell({ type: 'event', event }),
  })
}

function leaveAll() {
  feed?.close()
  feed = undefined
  live = false
}

;(self as unknown as { onconnect: (e: MessageEvent) => void }).onconnect = ({ ports }) => {
  const page = ports[0]!
  page.onmessage = ({ data }: MessageEvent<ToWorker>) => {
    if (data.type === 'join') return join(page, data.address, data.subject)
    pages.delete(page)
    if (pages.size === 0) leaveAll()
  }
}
