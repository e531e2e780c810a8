import type { Page } from 'playwright-core'
import { expect, it } from 'vitest'

import { browserSuite, settled } from './browser'
import type { components } from '../src/api/schema.gen'
import type { Client } from './drover'
import { approve, confirmed, logOut, on, path, restartFromFailed } from './names'
import { fresh, Gate, specs } from './specs'

type Executor = components['schemas']['Executor']

browserSuite('a user', ({ api, open }) => {
  it('logs in with the token, and out', async () => {
    const { page, faults, context } = await open({ login: false })
    await page.goto(path.runs)
    await on.token(page).fill('no-token-of-this-server')
    await on.logIn(page).click()
    await on.alert(page).waitFor()

    await on.token(page).fill(api.token)
    await on.logIn(page).click()
    await on.heading(page, 'Runs').waitFor()
    expect(new URL(page.url()).pathname).toBe(path.runs)

    const [cookie] = await context.cookies()
    expect(cookie).toMatchObject({ httpOnly: true, sameSite: 'Strict' })
    const kept = await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }) + document.cookie)
    expect(kept).not.toContain(api.token)

    await logOut(page)
    await on.token(page).waitFor()
    expect(await context.cookies()).toEqual([])
    expect(faults).toEqual([])
  })

  it('watches a fan-out go green, without a reload', async () => {
    const gate = new Gate()
    const run = await api.submit(specs.fanOut(gate))
    const { page, faults } = await open()
    await page.goto(path.tasks(run.id))
    await settled(page)
    await page.evaluate(() => document.body.setAttribute('data-same-page', ''))
    // The executor has four slots. Temporal decides which tasks it gets first.
    await expect.poll(() => on.row(page, /test\[PACKAGE=.*running/).count()).toBe(4)
    await on.row(page, /report.*not started/).waitFor()
    await on.outcome(page, 'running').waitFor()

    gate.open()
    for (const name of ['api', 'web', 'docs', 'cli', 'spec', 'run']) await on.row(page, new RegExp(`test\\[PACKAGE=${name}\\].*success`)).waitFor()
    await on.row(page, /report.*success/).waitFor()
    await on.outcome(page, 'success').waitFor()
    expect(await page.locator('body[data-same-page]').count(), 'the page was loaded again').toBe(1)
    expect(faults).toEqual([])
  })

  it('sees a new run in the list as it is submitted, and how it ends', async () => {
    const gate = new Gate()
    const group = fresh('/web/list')
    const { page, faults } = await open()
    await page.goto(`${path.runs}?group=${group}`)
    await settled(page)
    const run = await api.submit({ ...specs.waits(gate), name: 'listed', group })
    await on.row(page, 'listed').getByText('running', { exact: true }).waitFor()
    gate.open()
    await on.row(page, 'listed').getByText('success', { exact: true }).waitFor()
    await on.row(page, 'listed').getByRole('link').first().click()
    await on.heading(page, /listed/).waitFor()
    expect(new URL(page.url()).pathname).toContain(run.id)
    expect(faults).toEqual([])
  })

  it("opens a failing task's log at the failing line", async () => {
    const run = await api.submit(specs.failing)
    await api.await(run.id)
    const { page, faults } = await open()
    await page.goto(path.run(run.id))
    await settled(page)
    // The page of the run has the end of the log already.
    await page.getByRole('figure', { name: 'Last lines of test, unit tests' }).getByText('FAIL: total is 3, want 4').waitFor()
    await page.goto(path.tasks(run.id))
    await settled(page)
    await on.row(page, /test.*failed/).getByRole('link', { name: 'test', exact: true }).click()
    // The log opens at its end, where the failure is.
    const line = on.log(page).getByText('FAIL: total is 3, want 4')
    await line.waitFor()
    expect(await line.evaluate((e) => getComputedStyle(e).color), 'the colour of ANSI').not.toBe(await on.log(page).evaluate((e) => getComputedStyle(e).color))

    // A link to the line shows it again.
    await on.line(page, 121).click()
    await expect.poll(() => page.url()).toMatch(/(line=|#L)121/)
    const other = await open()
    await other.page.goto(page.url())
    await settled(other.page)
    const shown = on.log(other.page).getByText('FAIL: total is 3, want 4')
    await shown.waitFor()
    const logElement = await on.log(other.page).elementHandle()
    await expect.poll(() => shown.evaluate((line, log) => {
      const [inner, outer] = [line.getBoundingClientRect(), log!.getBoundingClientRect()]
      return inner.top >= outer.top && inner.bottom <= outer.bottom
    }, logElement), { message: 'the line is in view' }).toBe(true)
    expect([...faults, ...other.faults]).toEqual([])
  })

  it('approves a task', async () => {
    const { page, faults } = await open()
    await page.goto(path.submit)
    await settled(page)
    await headerCounts(page, api)
    // The page is open, and learns of it.
    const run = await api.submit(specs.approval)
    await api.awaitTask(run.id, 'release', 'waiting_approval')
    await headerCounts(page, api)
    await page.goto(path.task(run.id, 'release'))
    await settled(page)
    await approve(page)
    await on.outcome(page, 'success').waitFor()
    await headerCounts(page, api)
    const done = await api.await(run.id)
    expect(done.result).toBe('success')
    expect(done.actions?.some((a) => a.action.includes('approve')), JSON.stringify(done.actions)).toBe(true)
    expect(faults).toEqual([])
  })

  it('restarts a run from the failed tasks', async () => {
    const repaired = new Gate()
    const failed = await api.submit(specs.flaky(repaired))
    const before = await api.await(failed.id)
    repaired.open()
    const { page, faults } = await open()
    await page.goto(path.run(failed.id))
    await settled(page)
    await restartFromFailed(page)
    await page.waitForURL((url) => url.pathname.startsWith('/runs/') && !url.pathname.includes(failed.id))
    await on.outcome(page, 'success').waitFor()
    const id = new URL(page.url()).pathname.split('/')[2]!
    const again = await api.await(id)
    expect(again.restarted_from).toBe(failed.id)
    expect(again.tasks!.first!.started_at, 'the first task keeps its result').toBe(before.tasks!.first!.started_at)
    expect(faults).toEqual([])
  })

  it('stops a run', async () => {
    const gate = new Gate()
    const run = await api.submit(specs.waits(gate))
    await api.awaitTask(run.id, 'work', 'running')
    const { page, faults } = await open()
    await page.goto(path.run(run.id))
    await settled(page)
    await confirmed(page, on.button(page, /^stop/i).first(), /^stop/i)
    await on.outcome(page, 'stopped').waitFor()
    expect((await api.await(run.id)).result).toBe('stopped')
    gate.open()
    expect(faults).toEqual([])
  })

  it('drains an executor', async () => {
    const [executor] = (await api.get<{ executors: Executor[] }>('/api/v1/executors')).executors
    const { page, faults } = await open()
    try {
      await page.goto(path.executors)
      await settled(page)
      const row = on.row(page, executor!.id)
      await row.getByText('online', { exact: true }).waitFor()
      await confirmed(page, on.button(row, /^drain/i), /^drain/i)
      await row.getByText(/^drained|^draining/).first().waitFor()
      expect((await api.get<Executor>(`/api/v1/executors/${executor!.id}`)).state).toBe('draining')
    } finally {
      await api.call('POST', `/api/v1/executors/${executor!.id}/drain`, { resume: true })
    }
    await on.row(page, executor!.id).getByText('online', { exact: true }).waitFor()
    expect(faults).toEqual([])
  })
})

/** headerCounts awaits that the header counts the tasks that the API lists as waiting. */
async function headerCounts(page: Page, api: Client) {
  const waiting = page.locator('.top [data-count]')
  await expect.poll(async () => {
    const { approvals, next_after } = await api.get<components['schemas']['ApprovalPage']>('/api/v1/approvals?limit=100')
    const shown = (await waiting.count()) === 0 ? '0' : await waiting.getAttribute('data-count')
    return { shown, same: shown === `${approvals.length}${next_after ? '+' : ''}` }
  }, { message: 'the header counts the waiting tasks' }).toMatchObject({ same: true })
}
