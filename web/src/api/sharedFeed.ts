import { openFeed, type FeedHandlers } from './feed'
import type { FromWorker, ToWorker } from './feed.worker'
import { noteSessionEnd, ProblemError } from './problem'

/**
 * joinFeed is openFeed for a page: the pages of a browser that show the same server to the same user share one stream. A browser
 * without shared workers, such as Chrome on Android, has one for each page.
 */
export function joinFeed(address: string, subject: string, handlers: FeedHandlers): () => void {
  const worker = startWorker()
  if (!worker) return openFeed(address, handlers).close
  let leave: () => void
  const send = (message: ToWorker) => worker.port.postMessage(message)
  const join = () => send({ type: 'join', address, subject })
  const left = () => send({ type: 'leave' })
  const back = ({ persisted }: PageTransitionEvent) => { if (persisted) join() }
  let silence = 0
  const heard = () => {
    window.clearTimeout(silence)
    silence = window.setTimeout(ask, silentMillis)
  }
  // The timers of a computer that slept, or of a tab that was frozen, end together: the worker may run, and answers then.
  const ask = () => {
    silence = window.setTimeout(alone, answerMillis)
    join()
  }
  leave = () => {
    window.clearTimeout(silence)
    window.removeEventListener('pagehide', left)
    window.removeEventListener('pageshow', back)
    worker.onerror = worker.port.onmessage = null
    left()
  }
  // Its file may be gone, if the gateway was replaced by another version since the page was loaded; and it may be killed.
  const alone = () => {
    leave()
    leave = openFeed(address, handlers).close
  }
  worker.onerror = alone
  worker.port.onmessage = ({ data }: MessageEvent<FromWorker>) => {
    heard()
    if (data.type === 'alive') return
    if (data.type === 'live') return handlers.onLive()
    if (data.type === 'event') return handlers.onEvent(data.event)
    if (data.status === 401) noteSessionEnd()
    handlers.onLost(data.status === undefined ? undefined : new ProblemError(data.status, {}))
  }
  window.addEventListener('pagehide', left)
  window.addEventListener('pageshow', back)
  heard()
  join()
  return () => leave()
}

/** A worker that is silent for longer is asked whether it runs, and has some time to answer. */
const silentMillis = 50_000
const answerMillis = 10_000

function startWorker(): SharedWorker | undefined {
  try {
    return new SharedWorker(new URL('./feed.worker.ts', import.meta.url), { type: 'module', name: 'events' })
  } catch {
    return undefined // the browser has none, or does not allow one here
  }
}
