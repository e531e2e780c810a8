import type { Page } from 'playwright-core'
import { expect, it } from 'vitest'

import { violations } from './axe'
import { browserSuite, settled } from './browser'
import { on, path } from './names'
import { Gate, specs } from './specs'

/** wide is a run that waits for approvals, and has layers of tasks that do not fit into the window. */
function wide(layers: number, perLayer: number) {
  const tasks: Record<string, object> = {}
  for (let layer = 0; layer < layers; layer++) {
    for (let i = 0; i < perLayer; i++) {
      tasks[`task-${layer}-${i}`] = { ...(layer === 0 ? { approval: true } : { depends: [`task-${layer - 1}-${i}`] }), steps: [{ run: 'true' }] }
    }
  }
  return { name: 'wide', group: '/web/graph', tasks }
}

const graph = (page: Page) => page.getByRole('group', { name: /^Graph of the tasks/ })
const card = (page: Page, name: string) => graph(page).getByRole('link', { name: new RegExp(`^${name}\\b`) })
/** focused returns the name of the card with the focus. */
const focused = (page: Page) => page.evaluate(() => document.activeElement?.querySelector('b')?.textContent)
const position = (page: Page) => page.locator('.graph-world').evaluate((e) => e.style.transform)

async function show(page: Page, run: string) {
  await page.goto(path.run(run))
  await settled(page)
  await page.locator('.graph-frame[data-drawn]').waitFor()
}

browserSuite('the graph of a run', ({ api, open }) => {
  it('is used with the keyboard alone, and keeps the focus while tasks change', async () => {
    const gate = new Gate()
    const run = await api.submit({ ...specs.fanOut(gate), group: '/web/graph' })
    await api.awaitTask(run.id, 'prepare', 'success')
    const { page, faults } = await open()
    await show(page, run.id)
    await card(page, 'prepare').focus()
    await page.keyboard.press('ArrowRight')
    await expect.poll(() => focused(page)).toBe('test')
    await page.keyboard.press('Enter')
    const list = on.dialog(page).filter({ hasText: '6 tasks' })
    await list.waitFor()
    await page.keyboard.press('Escape')
    await list.waitFor({ state: 'detached' })
    await expect.poll(() => focused(page)).toBe('test')
    gate.open()
    await on.outcome(page, 'success').waitFor()
    expect(await focused(page), 'events do not take the focus').toBe('test')
    await page.keyboard.press('ArrowRight')
    await expect.poll(() => focused(page)).toBe('report')
    await page.keyboard.press('f')
    await page.keyboard.type('prep')
    await page.keyboard.press('Enter')
    await expect.poll(() => focused(page)).toBe('prepare')
    await page.keyboard.press('Enter')
    await page.waitForURL((url) => url.pathname === path.task(run.id, 'prepare'))
    expect(faults).toEqual([])
  })

  it('says what a card shows to readers who do not see it', async () => {
    const gate = new Gate()
    const run = await api.submit({ ...specs.fanOut(gate), group: '/web/graph' })
    await api.awaitTask(run.id, 'prepare', 'success')
    const { page, faults } = await open()
    await show(page, run.id)
    expect(await card(page, 'prepare').getAttribute('aria-description')).toMatch(/^success, attempt 1, took .+, no dependencies$/)
    const matrix = graph(page).getByRole('button', { name: /^test\b/ })
    expect(await matrix.getAttribute('aria-description')).toMatch(/^0 of 6 tasks ended, .*, 1 dependency$/)
    expect(await matrix.getAttribute('aria-expanded')).toBe('false')
    expect(await violations(page, 'all')).toEqual([])
    gate.open()
    await expect.poll(() => matrix.getAttribute('aria-description')).toMatch(/^6 of 6 tasks ended/)
    expect(faults).toEqual([])
  })

  it('has a map, which moves the view and can be hidden, if it is larger than the window', async () => {
    const run = await api.submit(wide(12, 30))
    await api.awaitTask(run.id, 'task-0-0', 'waiting_approval')
    const { page, faults } = await open()
    await show(page, run.id)
    const map = page.locator('.graph-overview')
    await map.scrollIntoViewIfNeeded()
    const box = (await map.boundingBox())!
    const before = await position(page)
    await page.mouse.click(box.x + box.width - 4, box.y + box.height - 4)
    await expect.poll(() => position(page)).not.toBe(before)
    const moved = await position(page)
    await page.mouse.move(box.x + box.width - 4, box.y + box.height - 4)
    await page.mouse.down()
    await page.mouse.move(box.x + 4, box.y + 4, { steps: 4 })
    await page.mouse.up()
    await expect.poll(() => position(page)).not.toBe(moved)
    await on.button(page, 'Map').click()
    await map.waitFor({ state: 'detached' })
    await page.reload()
    await page.locator('.graph-frame[data-drawn]').waitFor()
    expect(await map.count(), 'the choice is kept').toBe(0)
    await on.button(page, 'Map').click()
    await map.waitFor()
    await page.setViewportSize({ width: 360, height: 740 })
    await map.waitFor({ state: 'hidden' })
    await api.call('POST', `/api/v1/runs/${run.id}/stop`, { force: true })
    expect(faults).toEqual([])
  })
})

browserSuite('a log that is written fast', ({ api, open }) => {
  it('is followed to its end with all lines, and few elements', async () => {
    const gate = new Gate()
    const lines = 200_000
    const run = await api.submit({ name: 'fast', group: '/web/graph', tasks: { print: { steps: [{ run: `echo begun; ${gate.wait}; seq -f 'line %g' ${lines}` }] } } })
    await api.awaitTask(run.id, 'print', 'running')
    const { page, faults } = await open()
    await page.goto(path.task(run.id, 'print'))
    await on.logText(page, 'begun').waitFor()
    gate.open()
    // The first lines are that of the step and begun.
    await on.log(page).getByText(`${(lines + 2).toLocaleString('en')} lines`).waitFor()
    await on.logText(page, `line ${lines}`).waitFor()
    expect(await page.evaluate(() => document.querySelectorAll('*').length)).toBeLessThan(1_500)
    // Lines in the middle were neither lost nor doubled.
    await page.goto(`${path.task(run.id, 'print')}?line=100002`)
    await on.logText(page, 'line 100000').waitFor()
    expect(faults).toEqual([])
  })
})
