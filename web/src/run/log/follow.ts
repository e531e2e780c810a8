import { pauseAfter } from '../../api/pause'
import { openStream, type Message } from '../../api/stream'
import type { LogChunk, LogEnd } from '../../api/client'
import { isTemporary, ProblemError, type Problem } from '../../api/problem'

export type Following = { kind: 'live' } | { kind: 'complete'; services: string[] } | { kind: 'lost' } | { kind: 'failed'; error: unknown }

/** How long a page must be hidden before it gives its connection back. */
const hiddenMillis = 5_000

interface Follower {
  /** The address of the log without its parameters `follow` and `offset`. */
  address: URL
  /** offset returns where the next byte belongs. */
  offset: () => number
  onChunk: (bytes: Uint8Array, step: number, time: number) => void
  onState: (state: Following) => void
}

/**
 * follow streams a log from an offset until the task has ended, and misses nothing if the connection breaks. It gives up
 * only if the gateway says that there is no such log any more, or that the user may not read it. A page that is hidden gives
 * its connection back, because a browser has few of them for a server, and goes on from there when it is shown. A log that is written fast
 * is read in slices, one a frame; the gateway waits meanwhile, so what is not yet read takes no memory here.
 */
export function follow({ address, offset, onChunk, onState }: Follower): () => void {
  let stop: (() => void) | undefined
  let timer = 0
  let failures = 0

  const close = () => {
    stop?.()
    stop = undefined
  }
  const end = (error: unknown, steady: boolean) => {
    close()
    if (!isTemporary(error)) return finish({ kind: 'failed', error })
    onState({ kind: 'lost' })
    failures = steady ? 1 : failures + 1
    if (!document.hidden) timer = window.setTimeout(open, pauseAfter(failures))
  }
  const receive = ({ type, data }: Message) => {
    if (type === 'start') {
      onState({ kind: 'live' })
    } else if (type === 'end') {
      close()
      finish({ kind: 'complete', services: (JSON.parse(data) as LogEnd).services ?? [] })
    } else if (type === 'log') {
      const chunk = JSON.parse(data) as LogChunk
      onChunk(decode(chunk.data), chunk.step, Date.parse(chunk.time))
      failures = 0
    } else if (type === 'problem') {
      const problem = JSON.parse(data) as Problem
      end(new ProblemError(problem.status, problem), false)
    }
  }
  const open = () => {
    const url = new URL(address)
    url.searchParams.set('offset', String(offset()))
    url.searchParams.set('follow', 'true')
    stop = openStream(url, { onOpen: () => {}, onMessage: receive, onEnd: end, paced: true })
  }
  const finish = (state: Following) => {
    document.removeEventListener('visibilitychange', seen)
    onState(state)
  }
  const seen = () => {
    window.clearTimeout(timer)
    if (document.hidden) timer = window.setTimeout(close, hiddenMillis)
    else if (!stop) open()
  }
  document.addEventListener('visibilitychange', seen)
  if (!document.hidden) open()
  return () => {
    document.removeEventListener('visibilitychange', seen)
    close()
    window.clearTimeout(timer)
  }
}

/** Browsers of 2025 and later decode base64 themselves. */
const fromBase64 = (Uint8Array as { fromBase64?: (text: string) => Uint8Array }).fromBase64

function decode(base64: string): Uint8Array {
  if (fromBase64) return fromBase64.call(Uint8Array, base64)
  const text = atob(base64)
  const bytes = new Uint8Array(text.length)
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i)
  return bytes
}
