import { ProblemError, problemOf, type LogChunk, type Problem } from '../../api/client'

export type Following = { kind: 'live' | 'complete' } | { kind: 'lost' } | { kind: 'failed'; error: ProblemError }

interface Follower {
  /** path returns the address of the log without its parameters `follow` and `offset`. */
  address: URL
  /** offset returns where the next byte belongs. */
  offset: () => number
  onChunk: (bytes: Uint8Array, step: number, time: number) => void
  onState: (state: Following) => void
}

/** The longest pause before another attempt to connect. */
const longestPause = 15_000

/**
 * follow streams a log from an offset until the task has ended, and misses nothing if the connection breaks. It gives up
 * only if the gateway says that there is no such log any more, or that the user may not read it.
 */
export function follow({ address, offset, onChunk, onState }: Follower): () => void {
  let source: EventSource | undefined
  let timer = 0
  let failures = 0
  let over = false

  const again = () => {
    source?.close()
    if (over) return
    onState({ kind: 'lost' })
    failures++
    timer = window.setTimeout(open, Math.min(longestPause, 250 * 2 ** failures))
  }
  const fail = (error: ProblemError) => {
    source?.close()
    onState({ kind: 'failed', error })
  }
  /** ask finds out why the stream was refused: browsers do not tell. */
  const ask = async () => {
    try {
      const url = at(offset())
      url.searchParams.set('length', '1')
      const answer = await fetch(url, { headers: { Accept: 'text/plain' } })
      if (over) return
      if (!answer.ok && answer.status < 500) return fail(await problemOf(answer))
      void answer.body?.cancel()
    } catch {
      // The gateway cannot be reached.
    }
    again()
  }
  const at = (begin: number) => {
    const url = new URL(address)
    url.searchParams.set('offset', String(begin))
    return url
  }
  const open = () => {
    const url = at(offset())
    url.searchParams.set('follow', 'true')
    source = new EventSource(url)
    source.addEventListener('start', () => {
      failures = 0
      onState({ kind: 'live' })
    })
    source.addEventListener('log', (e: MessageEvent<string>) => {
      const chunk = JSON.parse(e.data) as LogChunk
      onChunk(decode(chunk.data), chunk.step, Date.parse(chunk.time))
    })
    source.addEventListener('end', () => {
      source?.close()
      onState({ kind: 'complete' })
    })
    source.addEventListener('problem', (e: MessageEvent<string>) => {
      const problem = JSON.parse(e.data) as Problem
      if (problem.status < 500) fail(new ProblemError(problem.status, problem))
      else again()
    })
    source.onerror = () => {
      source?.close() // the browser would resume too, but not after each kind of failure
      void ask()
    }
  }
  open()
  return () => {
    over = true
    source?.close()
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
