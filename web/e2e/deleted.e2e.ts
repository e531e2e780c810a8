import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'

import type { components } from '../src/api/schema.gen'
import { browserSuite, settled } from './browser'
import { Drover, until } from './drover'
import { on, path } from './names'
import { FaultyProxy, html } from './faultyproxy'
import { fresh, Gate, specs } from './specs'

type Run = components['schemas']['Run']

/** shownAgain is what a browser tells a page when its user comes back to it. */
const shownAgain = (page: Page) => page.evaluate(() => document.dispatchEvent(new Event('visibilitychange', { bubbles: true })))

browserSuite('what was deleted', ({ api, open }) => {
  let proxy: FaultyProxy
  beforeAll(async () => { proxy = await FaultyProxy.start(api) })
  afterAll(() => proxy?.stop())

  const finished = async (name: string): Promise<Run> => {
    const run = await api.submit({ ...specs.failing, name, group: '/web/deleted' })
    return api.await(run.id)
  }
  const remove = (run: Run) => api.call('DELETE', `/api/v1/runs/${run.id}`)

  it('is said on the page of the run, before and while it is open', async () => {
    const [before, shown] = [await finished('deleted before'), await finished('deleted while open')]
    await remove(before)
    const { page, faults } = await open()
    for (const address of [path.run(before.id), path.task(before.id, 'build'), path.run('01m83ps6va2g1cdk0dehtknvnf')]) {
      await page.goto(address)
      await on.alert(page).waitFor()
      expect(await on.alert(page).textContent()).not.toMatch(/undefined|\[object/)
      expect(await page.getByText(/tries again/).count(), 'it is not tried again').toBe(0)
    }
    await page.goto(path.run(shown.id))
    await settled(page)
    await remove(shown)
    await shownAgain(page)
    await on.alert(page).waitFor()
    await on.heading(page, 'deleted while open').waitFor() // what was read stays
    expect(faults).toEqual([])
  })

  it('leaves the list of runs', async () => {
    const [gone, stays] = [await finished(fresh('leaves the list')), await finished(fresh('stays in the list'))]
    const { page, faults } = await open()
    await page.goto(`${path.runs}?group=/web/deleted`)
    await on.row(page, gone.name).waitFor()
    await remove(gone)
    await shownAgain(page)
    await on.row(page, gone.name).waitFor({ state: 'detached' })
    await on.row(page, stays.name).waitFor()

    // A link of another list that is older.
    const row = on.row(page, stays.name).getByRole('link').first()
    await remove(stays)
    await row.click()
    await on.alert(page).waitFor()
    expect(faults).toEqual([])
  })

  it('ends the log that is followed', async () => {
    const gate = new Gate()
    const run = await api.submit({ ...specs.waits(gate), name: 'followed', group: '/web/deleted' })
    const { page, faults } = await open({ to: proxy })
    await page.goto(path.task(run.id, 'work'))
    await on.logText(page, 'begun').waitFor()
    // The task ends and is deleted while the connection is broken.
    proxy.fault = html(502, /\/logs/)
    proxy.cut(/\/logs/)
    await page.getByText('connection lost, trying again').filter({ visible: true }).last().waitFor()
    gate.open()
    await api.await(run.id)
    await remove(run)
    proxy.fault = undefined
    await on.log(page).getByText('not readable').waitFor()
    await on.alert(page).first().waitFor()
    await on.logText(page, 'begun').waitFor() // what was read stays
    expect(faults).toEqual([])
  })
})

browserSuite('a log that retention removed', ({ open }) => {
  let drover: Drover
  beforeAll(async () => { drover = await Drover.start({ DROVER_RETENTION__LOGS__MAX_AGE: '1s', DROVER_RETENTION__INTERVAL: '1s' }) })
  afterAll(async () => drover?.stop())

  it('is said to be deleted, with what remains of the task', async () => {
    const run = await drover.submit({ name: 'short', group: '/web/short', tasks: { build: { steps: [{ run: 'echo built; echo "version=1.2" >> "$DROVER_OUTPUT"' }, { run: 'exit 3' }] } } })
    await drover.await(run.id)
    const logs = `${drover.url}/api/v1/runs/${run.id}/tasks/build/logs`
    await until('the removal of the log', async () => {
      const { status } = await fetch(logs, { headers: { authorization: `Bearer ${drover.token}` } })
      return { done: status === 410 || undefined, state: String(status) }
    })
    const { page, faults } = await open({ to: drover })
    await page.goto(path.task(run.id, 'build'))
    await on.alert(page).filter({ hasText: 'It was deleted.' }).waitFor()
    await page.getByText('There is no log to show.').waitFor()
    await page.getByText('The status and the outputs of the task are kept.').waitFor()
    await page.getByText('exit code').first().waitFor()
    await page.getByText('Outputs (1)').click()
    await page.getByText('1.2', { exact: true }).waitFor()
    expect(faults).toEqual([])
  })
})
