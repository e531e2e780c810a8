import { afterAll, beforeAll, expect, it } from 'vitest'

import { browserSuite, settled } from './browser'
import { Drover } from './drover'
import { on, path } from './names'
import { fresh, Gate, specs } from './specs'

browserSuite('a page', ({ open }) => {
  let drover: Drover
  beforeAll(async () => { drover = await Drover.start() })
  afterAll(async () => drover?.stop())

  it('recovers by itself after kill -9 of the gateway', async () => {
    const gate = new Gate()
    const group = fresh('/web/recovery')
    const run = await drover.submit({ ...specs.waits(gate), group })
    await drover.awaitTask(run.id, 'work', 'running')
    const tasks = await open({ to: drover })
    await tasks.page.goto(path.tasks(run.id))
    await settled(tasks.page)
    const list = await open({ to: drover })
    await list.page.goto(`${path.runs}?group=${group}`)
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
      await expect.poll(() => on.alert(page).count()).toBe(0)
    }

    await drover.submit({ ...specs.waits(gate), name: 'after the restart', group })
    await on.row(list.page, 'after the restart').waitFor()
    expect([...tasks.faults, ...list.faults, ...log.faults]).toEqual([])
  })
})
