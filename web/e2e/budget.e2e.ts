import type { CDPSession } from 'playwright-core'
import { expect, it } from 'vitest'

import { browserSuite } from './browser'
import { on, path } from './names'
import { specs } from './specs'

/** The most that may be transferred before the first view is usable, in bytes as they are sent. */
const maxBytes = 350 * 1024
const maxRequests = 25

interface Traffic { requests: number; bytes: number; largest: [string, number][] }

/** count adds up what Chromium receives, compressed and with headers. */
async function count(session: CDPSession): Promise<() => Traffic> {
  const urls = new Map<string, string>()
  const bytes = new Map<string, number>()
  const add = (id: string, n: number) => bytes.set(id, (bytes.get(id) ?? 0) + n)
  session.on('Network.requestWillBeSent', (e) => urls.set(e.requestId, new URL(e.request.url).pathname))
  session.on('Network.dataReceived', (e) => add(e.requestId, e.encodedDataLength))
  session.on('Network.loadingFinished', (e) => bytes.set(e.requestId, e.encodedDataLength))
  await session.send('Network.enable')
  return () => ({
    requests: urls.size,
    bytes: [...bytes.values()].reduce((sum, n) => sum + n, 0),
    largest: [...bytes].map(([id, n]): [string, number] => [urls.get(id) ?? id, n]).sort(([, a], [, b]) => b - a).slice(0, 5),
  })
}

browserSuite('the first view', ({ api, open }) => {
  const views: Record<string, { login: boolean; address: () => Promise<string>; usable: (page: Parameters<typeof on.logIn>[0]) => Promise<void> }> = {
    'of the list': { login: true, address: async () => { await api.submit(specs.failing); return path.runs }, usable: (page) => on.row(page, 'failing').first().waitFor() },
    'of the login': { login: false, address: () => Promise.resolve(path.runs), usable: (page) => on.token(page).waitFor() },
    'of a log': {
      login: true,
      address: async () => {
        const run = await api.submit(specs.failing)
        await api.await(run.id)
        return path.task(run.id, 'test')
      },
      usable: (page) => on.log(page).getByText('FAIL: total is 3, want 4').waitFor(),
    },
  }
  for (const [name, { login, address, usable }] of Object.entries(views)) {
    it(`${name} takes at most ${maxBytes / 1024} KB and ${maxRequests} requests`, async () => {
      const to = await address()
      const { page, context, faults } = await open({ login })
      const traffic = await count(await context.newCDPSession(page))
      const begun = Date.now()
      await page.goto(to)
      await usable(page)
      const { requests, bytes, largest } = traffic()
      console.log(`${name}: ${Math.round(bytes / 1024)} KB in ${requests} requests, usable after ${Date.now() - begun} ms`)
      expect(bytes, JSON.stringify(largest)).toBeLessThan(maxBytes)
      expect(requests).toBeLessThanOrEqual(maxRequests)
      expect(faults).toEqual([])
    })
  }
})
