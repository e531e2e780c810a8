import type { Page } from 'playwright-core'
import { expect, it } from 'vitest'

import { violations } from './axe'
import { browserSuite, settled } from './browser'
import { Client, until } from './drover'
import { on, path } from './names'
import { fresh, specs } from './specs'

const found = (page: Page) => on.dialog(page).getByRole('list', { name: 'Found' }).getByRole('link')
const text = (page: Page) => on.dialog(page).getByRole('textbox')

/** find opens the search with its key, and types a text. */
async function find(page: Page, what: string) {
  await settled(page)
  await page.keyboard.press('/')
  await text(page).waitFor()
  await expect.poll(() => text(page).evaluate((e) => e === document.activeElement)).toBe(true)
  await page.keyboard.type(what)
}

browserSuite('the search over names and ids', ({ api, open }) => {
  it('leads to a run by its id, from any page', async () => {
    const run = await api.submit({ ...specs.failing, name: fresh('found') })
    await api.await(run.id)
    const { page, faults } = await open()
    for (const address of [path.pools, path.runs, path.run(run.id)]) {
      await page.goto(address)
      await find(page, run.id.toUpperCase())
      await found(page).filter({ hasText: run.name }).waitFor()
      await page.keyboard.press('Enter')
      await page.waitForURL((url) => url.pathname === path.run(run.id))
      await on.dialog(page).waitFor({ state: 'detached' })
    }
    expect(faults).toEqual([])
  })

  it('leads to runs by their name, in part and as a whole', async () => {
    const name = fresh('nightly-checks')
    const run = await api.submit({ ...specs.failing, name })
    const { page, faults } = await open()
    await page.goto(path.runs)
    await find(page, name.slice(4))
    await found(page).filter({ hasText: `all runs of this name` }).filter({ hasText: name }).waitFor()
    await page.keyboard.press('Escape')
    await on.dialog(page).waitFor({ state: 'detached' })
    await find(page, name)
    // At once: the name is still being read.
    await page.keyboard.press('Enter')
    await page.waitForURL((url) => url.pathname === path.runs && url.searchParams.get('name') === name)
    await on.row(page, name).first().waitFor()
    await find(page, name)
    await page.getByRole('link', { name: new RegExp(`^run ${name} .*${run.id}`) }).click()
    await page.waitForURL((url) => url.pathname === path.run(run.id))
    expect(faults).toEqual([])
  })

  it('leads to what operators have named, by the keyboard', async () => {
    const group = fresh('zone')
    await api.call('PUT', `/api/v1/changegroups/${group}-a`, { max_running: 2, on_busy: 'queue' })
    await api.call('PUT', `/api/v1/changegroups/${group}-b`, { max_running: 2, on_busy: 'queue' })
    await api.call('PUT', `/api/v1/schedules/${group}`, { spec: specs.failing, cron: ['0 2 1 1 *'], paused: true })
    const { page, faults } = await open({ viewport: { width: 360, height: 740 } })
    await page.goto(path.approvals)
    await find(page, group)
    await expect.poll(() => found(page).allTextContents()).toEqual([`schedule ${group} `, `change group ${group}-a `, `change group ${group}-b `])
    expect((await violations(page, 'all')).join('\n')).toBe('')
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(360)
    for (const key of ['ArrowDown', 'ArrowDown', 'ArrowDown', 'ArrowUp', 'Enter']) await page.keyboard.press(key)
    await page.waitForURL((url) => url.pathname === `${path.changeGroups}/${group}-a`)
    expect(faults).toEqual([])
  })

  it('finds what the user may list, and says that nothing else is found', async () => {
    const [own, name] = ['/find/own', fresh('zone')]
    const ours = await api.submit({ ...specs.failing, name, group: own })
    const theirs = await api.submit({ ...specs.failing, name, group: '/find/other' })
    const { token } = await api.call<{ token: string }>('POST', '/api/v1/tokens', { name: fresh('finder'), bindings: [{ role: 'viewer', groups: [`${own}/**`] }] })
    const user = new Client({ url: api.url, token })
    await until('the token to be accepted', async () => {
      const { status } = await fetch(`${user.url}/api/v1/session`, { headers: { authorization: `Bearer ${token}` } })
      return { done: status === 200 || undefined, state: String(status) }
    })
    const { page, faults } = await open({ to: user })
    const refused: string[] = []
    page.on('response', (r) => { if (r.status() === 403) refused.push(r.url()) })
    await page.goto(path.runs)
    await find(page, name)
    await found(page).filter({ hasText: ours.id }).waitFor()
    expect(await found(page).filter({ hasText: theirs.id }).count()).toBe(0)
    await text(page).fill(theirs.id)
    await on.dialog(page).getByText('Nothing has this name or id, as far as you may see it.').waitFor()
    expect(refused.filter((url) => !url.endsWith(theirs.id))).toEqual([])
    expect(faults).toEqual([])
  })
})
