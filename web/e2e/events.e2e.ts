import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'

import { browserSuite, settled } from './browser'
import { on, path } from './names'
import { events, FaultyProxy, html, type Fault } from './faultyproxy'
import { fresh, specs } from './specs'

browserSuite('the event stream', ({ api, open }) => {
  let proxy: FaultyProxy
  beforeAll(async () => { proxy = await FaultyProxy.start(api) })
  afterEach(() => { proxy.fault = undefined })
  afterAll(() => proxy?.stop())

  const event = (fields: object) => `event: run\ndata: ${JSON.stringify({ number: 1, type: 'run', time: new Date().toISOString(), ...fields })}\n\n`
  /** An event whose data has no end, in parts of a megabyte: more of it than the page may keep. */
  function* endless() {
    yield 'event: run\ndata: "'
    for (let i = 0; i < 12; i++) yield 'x'.repeat(1 << 20)
  }
  const broken: Record<string, Fault> = {
    'events that it cannot read': events('event: run\ndata: {"run":\n\nevent: task\ndata: null\n\nevent: task\ndata: {"type":"task","run":5}\n\nevent: other\ndata: 1\n\nno field\n\n'),
    'a frame that is cut off': events(`${event({ run: 'x', group: '/' })}id: 7\nevent: run\ndata: {"number":2,"type":"run","ru`),
    'a wrong content type': events(event({ run: 'x', group: '/' }), { type: 'application/json' }),
    'a page of a proxy with status 200': html(200, /^\/api\/v1\/events/),
    'a page of a proxy with status 502': html(502, /^\/api\/v1\/events/),
    'an event without an end': events(endless, { open: true }),
    'a stream that ends at once': events(''),
    'a problem of the gateway': events('event: problem\ndata: {"status":500,"code":"internal"}\n\n'),
  }
  for (const [name, fault] of Object.entries(broken)) {
    it(`survives ${name}`, async () => {
      proxy.fault = fault
      const { page, faults } = await open({ to: proxy })
      await page.goto(path.runs)
      await on.heading(page, 'Runs').waitFor()
      // The page asks again although the stream is broken, and keeps its contents.
      const before = proxy.faults.get('/api/v1/events') ?? 0
      await expect.poll(() => proxy.faults.get('/api/v1/events') ?? 0).toBeGreaterThan(before + 1)
      proxy.fault = undefined
      await settled(page)
      const after = fresh(`after ${name}`)
      const run = await api.submit({ ...specs.approval, name: after })
      await on.row(page, after).waitFor()
      await api.awaitTask(run.id, 'release', 'waiting_approval')
      await api.call('POST', `/api/v1/runs/${run.id}/stop`, { force: true })
      await on.row(page, after).getByText('stopped', { exact: true }).waitFor()
      expect(faults).toEqual([])
    })
  }
})
