import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'

import { browserSuite, settled } from './browser'
import { FaultyProxy } from './faultyproxy'
import { on, path } from './names'
import { fresh, Gate, specs } from './specs'

/** hide tells a page that its tab is hidden, or shown. A browser without a window never hides one. */
const hide = (page: Page, hidden: boolean) => page.evaluate((hidden) => {
  Object.defineProperty(document, 'hidden', { configurable: true, get: () => hidden })
  document.dispatchEvent(new Event('visibilitychange'))
}, hidden)

browserSuite('many tabs of one browser, which has six connections to a server', ({ api, open }) => {
  let proxy: FaultyProxy
  beforeAll(async () => { proxy = await FaultyProxy.start(api) })
  afterAll(() => proxy?.stop())

  for (const through of ['the gateway itself', 'a proxy'] as const) {
    it(`are all live, and stop a run, through ${through}`, async () => {
      const gate = new Gate()
      const group = fresh('/web/tabs')
      const runs = await Promise.all(Array.from({ length: 3 }, () => api.submit({ ...specs.waits(gate), group })))
      for (const run of runs) await api.awaitTask(run.id, 'work', 'running')
      const { page: first, context, faults } = await open({ to: through === 'a proxy' ? proxy : api })
      const more = async (address: string) => {
        const page = await context.newPage()
        await page.goto(address)
        await settled(page)
        return page
      }
      await first.goto(path.run(runs[0]!.id))
      await settled(first)
      const logs: Page[] = []
      for (const run of runs) logs.push(await more(path.task(run.id, 'work')))
      const lists: Page[] = []
      for (let i = 0; i < 8; i++) lists.push(await more(`${path.runs}?group=${group}`))
      for (const log of logs) await on.logText(log, 'begun').waitFor()
      if (through === 'a proxy') {
        expect(proxy.answers(/\/events/), 'one stream for all tabs').toBe(1)
        expect(proxy.answers(/\/logs.*follow/)).toBe(3)
      }

      const begun = Date.now()
      await on.button(first, 'Stop …').click()
      await on.button(on.dialog(first), 'Stop').click()
      await on.dialog(first).waitFor({ state: 'detached' })
      console.log(`Stop was answered after ${Date.now() - begun} ms`)
      for (const page of [first, logs[0]!]) await on.outcome(page, 'stopped').waitFor()
      for (const page of lists) await on.row(page, 'stopped').waitFor()
      gate.open()
      for (const page of lists) await expect.poll(() => on.row(page, 'success').count()).toBe(2)
      for (const log of logs.slice(1)) await on.logText(log, 'ended').waitFor()
      expect(faults).toEqual([])
    })
  }

  it('give back the connection of a log while they are hidden, and miss nothing of it', async () => {
    const gate = new Gate()
    const run = await api.submit(specs.waits(gate))
    const { page, faults } = await open({ to: proxy })
    await page.goto(path.task(run.id, 'work'))
    await on.logText(page, 'begun').waitFor()
    await expect.poll(() => proxy.answers(/\/logs.*follow/)).toBe(1)
    await hide(page, true)
    await expect.poll(() => proxy.answers(/\/logs.*follow/)).toBe(0)
    gate.open()
    await api.await(run.id)
    expect(await on.logText(page, 'ended').count()).toBe(0)
    await hide(page, false)
    await on.logText(page, 'ended').waitFor()
    expect((await on.log(page).textContent())!.split('begun').length, 'no line is shown twice').toBe(2)
    expect(faults).toEqual([])
  })

  it('go on with their stream when one of them is closed, or another user logs in', async () => {
    const group = fresh('/web/tabs')
    const { page: first, context } = await open({ to: proxy })
    const second = await context.newPage()
    for (const page of [first, second]) {
      await page.goto(`${path.runs}?group=${group}`)
      await settled(page)
    }
    await first.close()
    const run = await api.submit({ ...specs.failing, group })
    await api.await(run.id)
    await on.row(second, 'failed').waitFor()

    const name = fresh('tabs')
    const { token } = await api.call<{ token: string }>('POST', '/api/v1/tokens', { name, scopes: ['read'] })
    await context.clearCookies()
    proxy.cut(/events/)
    await second.getByText('Your session has ended.').waitFor()
    await expect.poll(() => proxy.answers(/\/events/)).toBe(0)
    await on.token(second).fill(token)
    await on.logIn(second).click()
    await settled(second)
    const next = await api.submit({ ...specs.failing, group })
    await api.await(next.id)
    await expect.poll(() => on.row(second, 'failed').count()).toBe(2)
    expect(proxy.answers(/\/events/)).toBe(1)
  })
})
