import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'

import type { components } from '../src/api/schema.gen'
import { browserSuite, settled } from './browser'
import { on, path } from './names'
import { FaultyProxy, html } from './faultyproxy'
import { fresh, specs } from './specs'

type Run = components['schemas']['Run']

/** The paths of the API, without those that the frame of all pages needs. */
const ofPages = /^\/api\/v1\/(?!session|events|version)/

browserSuite('while a proxy answers for the gateway, a page', ({ api, open }) => {
  let proxy: FaultyProxy
  let run: Run
  beforeAll(async () => {
    proxy = await FaultyProxy.start(api)
    run = await api.submit({ ...specs.failing, name: 'outage', group: '/web/outage' })
    await api.await(run.id)
  })
  afterEach(() => { proxy.fault = undefined })
  afterAll(() => proxy?.stop())

  const pages: Record<string, { address: () => string; answer: string }> = {
    'of the runs': { address: () => `${path.runs}?group=/web/outage`, answer: 'outage' },
    'of a run': { address: () => path.run(run.id), answer: 'outage' },
    'of a log': { address: () => path.task(run.id, 'test'), answer: 'FAIL: total is 3, want 4' },
    'of results': { address: () => path.results(run.id), answer: 'report' },
    'of a specification': { address: () => path.spec(run.id), answer: 'compile' },
    'of groups': { address: () => path.groups, answer: 'web' },
    'of executors': { address: () => path.executors, answer: 'online' },
    'of approvals': { address: () => path.approvals, answer: 'Approvals' },
    'of the audit log': { address: () => path.audit, answer: 'create run' },
  }
  for (const status of [200, 502, 503]) {
    for (const [name, { address, answer }] of Object.entries(pages).slice(0, status === 503 ? undefined : 2)) {
      it(`${name} says what is wrong with status ${status}, when it tries again, and recovers`, async () => {
        proxy.fault = html(status, ofPages)
        const { page, faults } = await open({ to: proxy })
        await page.goto(address())
        await on.alert(page).filter({ hasText: status === 200 ? 'Something other than the gateway answered' : `a proxy answered with status ${status}` }).waitFor()
        await page.getByText(/^The page tries again in \d+ s\.$/).first().waitFor()
        expect(await page.getByRole('main').textContent()).not.toMatch(/A proxy answers|Unexpected token|undefined/)
        proxy.fault = undefined
        await page.getByText(answer).filter({ visible: true }).first().waitFor()
        await expect.poll(() => on.alert(page).count()).toBe(0)
        await settled(page)
        expect(faults).toEqual([])
      })
    }
  }

  it('tries again at once when the user asks for it, less and less often by itself', async () => {
    proxy.fault = html(503, ofPages)
    const { page, faults } = await open({ to: proxy })
    await page.goto(`${path.runs}?group=/web/outage`)
    const wait = page.getByText(/^The page tries again in ([2-9]|1\d) s\.$/)
    await wait.waitFor()
    const seconds = Number(/in (\d+) s/.exec((await wait.textContent())!)![1])
    expect(seconds).toBeLessThanOrEqual(15)
    await page.getByText(/^The page tries again in ([7-9]|1\d) s\.$/).waitFor()
    const before = proxy.faults.get('/api/v1/runs')!
    await on.button(page, 'Try again now').click()
    await expect.poll(() => proxy.faults.get('/api/v1/runs')!).toBeGreaterThan(before)
    await on.button(page, 'Try again now').waitFor()
    proxy.fault = undefined
    await on.button(page, 'Try again now').click()
    await on.row(page, 'outage').waitFor()
    expect(await on.alert(page).count()).toBe(0)
    expect(faults).toEqual([])
  })

  it('that is open keeps what it shows, and recovers', async () => {
    const { page, faults } = await open({ to: proxy })
    await page.goto(`${path.runs}?group=/web/outage`)
    await settled(page)
    await page.evaluate(() => document.body.setAttribute('data-same-page', ''))
    proxy.fault = html(502)
    proxy.cut(/events/)
    await on.stream(page).filter({ hasText: 'lost' }).waitFor()
    await expect.poll(() => proxy.faults.get('/api/v1/events') ?? 0).toBeGreaterThan(2)
    await on.row(page, 'outage').waitFor()
    const name = fresh('while it was away')
    const missed = await api.submit({ ...specs.failing, name, group: '/web/outage' })
    await api.await(missed.id)
    proxy.fault = undefined
    await on.stream(page).filter({ hasText: 'live' }).waitFor()
    await on.row(page, name).getByText('failed', { exact: true }).waitFor()
    expect(await page.locator('body[data-same-page]').count(), 'the page was loaded again').toBe(1)
    expect(faults).toEqual([])
  })

  it('that is asked for first waits for the session', async () => {
    proxy.fault = html(503, /^\/api\//)
    const { page, faults } = await open({ to: proxy })
    await page.goto(path.approvals)
    await on.alert(page).filter({ hasText: 'status 503' }).waitFor()
    proxy.fault = undefined
    await on.heading(page, 'Approvals').waitFor()
    await settled(page)
    expect(faults).toEqual([])
  })
})
