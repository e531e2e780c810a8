import { afterAll, beforeAll, expect, it } from 'vitest'

import { browserSuite, settled } from './browser'
import { Drover } from './drover'
import { on, path } from './names'
import { Gate, specs } from './specs'

browserSuite('a page', ({ api, open }) => {
  let drover: Drover
  beforeAll(async () => { drover = await Drover.start() })
  afterAll(async () => drover?.stop())

  it('recovers by itself after kill -9 of the gateway', async () => {
    const gate = new Gate()
    const run = await drover.submit(specs.waits(gate))
    await drover.awaitTask(run.id, 'work', 'running')
    const tasks = await open({ to: drover })
    await tasks.page.goto(path.tasks(run.id))
    await settled(tasks.page)
    const list = await open({ to: drover })
    await list.page.goto(path.runs)
    await settled(list.page)
    const log = await open({ to: drover })
    await log.page.goto(path.task(run.id, 'work'))
    await on.logText(log.page, 'begun').waitFor()
    const pages = [tasks.page, list.page, log.page]
    for (const page of pages) await page.evaluate(() => document.body.setAttribute('data-same-page', ''))

    await drover.kill()
    for (const page of pages) await on.stream(page).filter({ hasText: /lost|again|offline/i }).waitFor()
    gate.open() // the task ends while there is no server
    await drover.again()
    for (const page of pages) await on.stream(page).filter({ hasText: 'live' }).waitFor()
    await on.row(tasks.page, /work.*success/).waitFor()
    await on.outcome(tasks.page, 'success').waitFor()
    await on.row(list.page, 'waits').getByText('success', { exact: true }).waitFor()
    await on.logText(log.page, 'ended').waitFor()
    expect((await on.log(log.page).textContent())!.split('begun').length, 'no line is shown twice').toBe(2)
    for (const page of pages) {
      expect(await page.locator('body[data-same-page]').count(), 'the page was loaded again').toBe(1)
      expect(await on.alert(page).count(), (await page.getByRole('main').textContent()) ?? '').toBe(0)
    }

    await drover.submit({ ...specs.waits(gate), name: 'after the restart' })
    await on.row(list.page, 'after the restart').waitFor()
    expect([...tasks.faults, ...list.faults, ...log.faults]).toEqual([])
  })

  it('asks for a login when its session has ended, and shows the same page after it', async () => {
    const { page, faults } = await open({ login: false })
    await page.goto(`${path.approvals}`)
    await on.token(page).fill(api.token)
    await on.logIn(page).click()
    await on.heading(page, 'Approvals').waitFor()
    await page.context().request.delete('/api/v1/session')
    await page.getByRole('link', { name: 'Runs', exact: true }).click()
    await on.token(page).fill(api.token)
    await on.logIn(page).click()
    await on.heading(page, 'Runs').waitFor()
    expect(new URL(page.url()).pathname).toBe(path.runs)
    expect(faults).toEqual([])
  })

  it('says that a run was deleted', async () => {
    const run = await api.submit({ ...specs.approval, name: 'deleted', group: '/web/deleted' })
    await api.awaitTask(run.id, 'release', 'waiting_approval')
    await api.call('POST', `/api/v1/runs/${run.id}/stop`, { force: true })
    await api.await(run.id)
    await api.call('DELETE', `/api/v1/runs/${run.id}`)
    const { page, faults } = await open()
    await page.goto(path.run(run.id))
    await on.alert(page).waitFor()
    expect(await on.alert(page).textContent()).not.toMatch(/undefined|\[object/)
    await page.goto(path.task(run.id, 'build'))
    await on.alert(page).waitFor()
    expect(faults).toEqual([])
  })

  it('survives events that it cannot read', async () => {
    const { page } = await open()
    await page.route('**/api/v1/events*', (route) => route.fulfill({
      contentType: 'text/event-stream',
      body: 'event: run\ndata: {"run":\n\nevent: task\ndata: null\n\nevent: task\ndata: {"type":"task","run":5}\n\nevent: other\ndata: 1\n\n',
    }))
    await page.goto(path.runs)
    await on.heading(page, 'Runs').waitFor()
    await page.unroute('**/api/v1/events*')
    await on.stream(page).filter({ hasText: 'live' }).waitFor()
    const run = await api.submit({ ...specs.approval, name: 'after broken events' })
    await on.row(page, 'after broken events').waitFor()
    await api.awaitTask(run.id, 'release', 'waiting_approval')
    await api.call('POST', `/api/v1/runs/${run.id}/stop`, { force: true })
  })
})
