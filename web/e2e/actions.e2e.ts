import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'

import { browserSuite, settled } from './browser'
import { until } from './drover'
import { FaultyProxy } from './faultyproxy'
import { on, path } from './names'
import { fresh, Gate, specs } from './specs'

/**
 * takeConnections takes all connections that Chromium has for a server over HTTP/1.1, with streams of events, and returns the function that
 * gives them back.
 */
async function takeConnections(page: Page): Promise<() => Promise<void>> {
  await page.evaluate(async () => {
    const taken = new AbortController()
    Object.assign(window, { taken })
    // The page has a stream of its own. A seventh request waits for a connection.
    await Promise.all(Array.from({ length: 5 }, () => fetch('/api/v1/events?from=now', { signal: taken.signal, cache: 'no-store', headers: { Accept: 'text/event-stream' } })))
  })
  return () => page.evaluate(() => (window as unknown as { taken: AbortController }).taken.abort())
}

const dialog = (page: Page) => on.dialog(page).filter({ visible: true })
const notKnown = (page: Page) => on.alert(dialog(page)).getByText('It is not known whether it was done.')

browserSuite('an action', ({ api, open }) => {
  let proxy: FaultyProxy
  beforeAll(async () => { proxy = await FaultyProxy.start(api) })
  afterAll(() => proxy?.stop())

  it('that is withdrawn before the browser has sent it is not carried out later', async () => {
    const gate = new Gate()
    const run = await api.submit(specs.waits(gate))
    await api.awaitTask(run.id, 'work', 'running')
    const { page, faults } = await open()
    await page.goto(path.run(run.id))
    await settled(page)
    const giveBack = await takeConnections(page)
    await on.button(page, 'Stop …').click()
    await on.button(dialog(page), 'Stop').click()
    await dialog(page).getByText('The gateway has not answered yet.').waitFor()
    await page.keyboard.press('Escape')
    await notKnown(page).waitFor()
    await page.keyboard.press('Escape')
    await dialog(page).waitFor({ state: 'detached' })
    await giveBack()

    // The next request, which waited behind it, has arrived. So would the first one have.
    await page.evaluate(() => fetch('/api/v1/version').then((r) => r.text()))
    expect((await api.get<{ stop_requested?: boolean }>(`/api/v1/runs/${run.id}`)).stop_requested ?? false).toBe(false)
    await on.button(page, 'Stop …').click()
    await on.button(dialog(page), 'Stop').click()
    await dialog(page).waitFor({ state: 'detached' })
    await on.outcome(page, 'stopped').waitFor()
    expect(faults).toEqual([])
  })

  it('that approves, and is withdrawn before the browser has sent it, approves nothing', async () => {
    const group = fresh('/web/approve')
    const run = await api.submit({ ...specs.approval, group })
    await api.awaitTask(run.id, 'release', 'waiting_approval')
    const { page, faults } = await open()
    for (const [address, name, confirm] of [[path.task(run.id, 'release'), /^Approve or reject/, 'Approve'], [path.approvals, 'Approve …', 'Approve']] as const) {
      await page.goto(address)
      await settled(page)
      const giveBack = await takeConnections(page)
      const button = address === path.approvals ? on.button(on.row(page, group), name) : on.button(page.getByRole('main'), name).first()
      await button.click()
      await on.button(dialog(page), confirm).click()
      await on.button(dialog(page), 'Stop waiting').click()
      await notKnown(page).waitFor()
      await on.button(dialog(page), 'Close').click()
      await dialog(page).waitFor({ state: 'detached' })
      await giveBack()
      await page.evaluate(() => fetch('/api/v1/version').then((r) => r.text()))
    }
    await api.awaitTask(run.id, 'release', 'waiting_approval')
    await api.call('POST', `/api/v1/runs/${run.id}/stop`, { force: true })
    expect(faults).toEqual([])
  })

  it('whose answer is late is done, and the page shows it', async () => {
    const gate = new Gate()
    const run = await api.submit(specs.waits(gate))
    await api.awaitTask(run.id, 'work', 'running')
    const { page, faults } = await open({ to: proxy })
    await page.goto(path.run(run.id))
    await settled(page)
    let answer = () => {}
    const answered = new Promise<void>((done) => { answer = done })
    proxy.late = { paths: /\/stop$/, until: answered }
    try {
      await on.button(page, 'Stop …').click()
      await on.button(dialog(page), 'Stop').click()
      await api.await(run.id)
      await dialog(page).getByText('The gateway has not answered yet.').waitFor()
      await on.outcome(page, 'stopped').waitFor() // by its events
      await on.button(dialog(page), 'Stop waiting').click()
      await notKnown(page).waitFor()
      await on.button(dialog(page), 'Close').click()
      await dialog(page).waitFor({ state: 'detached' })
    } finally {
      answer()
      proxy.late = undefined
    }
    expect(faults).toEqual([])
  })

  it('for several runs that is withdrawn begins no more of them', async () => {
    const gate = new Gate()
    const group = fresh('/web/bulk')
    const runs = await Promise.all(Array.from({ length: 8 }, () => api.submit({ ...specs.waits(gate), group, admission: 'manual' })))
    const { page, faults } = await open({ to: proxy })
    await page.goto(`${path.runs}?group=${group}`)
    await settled(page)
    const boxes = on.row(page, 'waits').getByRole('checkbox')
    await expect.poll(() => boxes.count()).toBe(8)
    for (const box of await boxes.all()) await box.check()
    let answer = () => {}
    const answered = new Promise<void>((done) => { answer = done })
    proxy.late = { paths: /\/stop$/, until: answered }
    const cancelled = async () => (await api.get<{ runs: { phase: string }[] }>(`/api/v1/runs?group=${group}&phase=cancelled`)).runs.length
    try {
      await on.button(page.getByRole('toolbar'), /^Stop/).click()
      await on.button(dialog(page), 'Stop').click()
      await until('the first four', async () => {
        const n = await cancelled()
        return { done: n === 4 || undefined, state: String(n) }
      })
      await on.button(dialog(page), 'Stop waiting').click()
      await on.button(dialog(page), 'Try 8 again').waitFor()
      await expect.poll(() => dialog(page).getByText('It is not known whether it was done.').count()).toBe(4)
    } finally {
      answer()
      proxy.late = undefined
    }
    expect(await cancelled()).toBe(4)
    await on.button(dialog(page), 'Close').click()
    for (const run of runs) await api.call('POST', `/api/v1/runs/${run.id}/cancel`, {}).catch(() => undefined)
    expect(faults).toEqual([])
  })
})
