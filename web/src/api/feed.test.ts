import { afterEach, expect, test, vi } from 'vitest'

import { openFeed } from './feed'

afterEach(() => { vi.unstubAllGlobals() })

const event = (number: number) => `id: ${number}\nevent: run\ndata: {"number":${number},"type":"run","run":"r","time":"2026-01-31T12:00:00Z"}\n\n`

/** resumed gives a feed streams that end, and returns the position with which it asked for each, and for one more. */
async function resumed(streams: string[]): Promise<(string | undefined)[]> {
  const asked: (string | undefined)[] = []
  let resolve: () => void
  const all = new Promise<void>((done) => { resolve = done })
  vi.stubGlobal('fetch', (_: string, { headers }: { headers: Record<string, string> }) => {
    const stream = streams[asked.length]
    asked.push(headers['Last-Event-ID'])
    if (stream === undefined) {
      resolve()
      return new Promise(() => {})
    }
    return Promise.resolve(new Response(stream, { headers: { 'Content-Type': 'text/event-stream' } }))
  })
  const feed = openFeed('/events', { onLive: () => {}, onLost: () => { queueMicrotask(() => feed.again()) }, onEvent: () => {} })
  await all
  feed.close()
  return asked
}

test.each([
  ['an event', [event(7)], [undefined, '7']],
  ['a position without an event', ['id: 40\n\n', `${event(41)}id: 50\n\n: hello\n\n`], [undefined, '40', '50']],
  ['the last position, if the stream sent none', ['id: 40\n\n', ': hello\n\n'], [undefined, '40', '40']],
  ['no position that is cut off', ['id: 40\n\nid: 50\n'], [undefined, '40']],
  ['no position of other events', ['id: 40\n\nid: 50\nevent: other\ndata: 1\n\n'], [undefined, '40']],
])('a feed is resumed after %s', async (_, streams, want) => {
  expect(await resumed(streams)).toEqual(want)
})
