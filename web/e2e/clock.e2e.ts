import { expect, it } from 'vitest'

import { browserSuite, settled } from './browser'
import { on, path } from './names'
import { fresh, Gate, specs } from './specs'

const hour = 3_600_000

browserSuite('a browser whose clock is wrong', ({ api, open }) => {
  for (const [name, error] of [['hours ahead', 5 * hour], ['hours behind', -5 * hour], ['years behind', -3 * 365 * 24 * hour]] as const) {
    it(`by ${name} shows the times of the server`, async () => {
      const gate = new Gate()
      const group = fresh('/web/clock')
      const run = await api.submit({ ...specs.waits(gate), name: name.replace(' ', '-'), group })
      await api.awaitTask(run.id, 'work', 'running')
      const { page, context, faults } = await open()
      await context.clock.install({ time: Date.now() + error })
      const sane = async (where: string) => {
        const text = (await page.getByRole('main').textContent())!
        expect(text, where).not.toMatch(/\b\d+ (h|d)\b|\b\d{3,} min\b|in \d+ |-\d+ (ms|s)\b|NaN/)
      }
      await page.goto(`${path.runs}?group=${group}`)
      await on.row(page, name.replace(' ', '-')).getByText(/^\d+(\.\d)? (s|min \d+ s)$/).waitFor() // how long it has been running
      await sane('runs')
      for (const address of [path.run(run.id), path.timeline(run.id), path.tasks(run.id), path.task(run.id, 'work')]) {
        await page.goto(address)
        await settled(page)
        await page.getByRole('main').locator('header').getByText(/^running for/).waitFor()
        await sane(address)
      }
      await page.goto(path.executors)
      await settled(page)
      await sane('executors')

      // It is set while the page is open.
      await page.goto(path.run(run.id))
      await settled(page)
      await context.clock.setSystemTime(Date.now() + 2 * error)
      const running = page.getByRole('main').locator('header').getByText(/^running for/)
      const before = await running.textContent()
      await expect.poll(() => running.textContent()).not.toBe(before) // it goes on
      await sane('after the clock was set')
      gate.open()
      await on.outcome(page, 'success').waitFor()
      await sane('after the end')
      expect(faults).toEqual([])
    })
  }
})
