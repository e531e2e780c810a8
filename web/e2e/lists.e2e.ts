import { afterAll, beforeAll, expect, it } from 'vitest'

import { browserSuite, settled } from './browser'
import { on, path } from './names'
import { fresh, specs } from './specs'

browserSuite('a list', ({ api, open }) => {
  const name = fresh('listed')
  const group = `/web/${name}`
  const spec = { ...specs.approval, name, group }
  let run: string
  beforeAll(async () => {
    run = (await api.submit(spec)).id
    await api.awaitTask(run, 'release', 'waiting_approval')
    await api.call('PUT', `/api/v1/schedules/${name}`, { spec, cron: ['0 3 * * *'], paused: true })
    await api.call('PUT', `/api/v1/changegroups/${name}`, { max_running: 1 })
  })
  afterAll(async () => {
    if (!run) return
    await api.call('DELETE', `/api/v1/schedules/${name}`)
    await api.call('POST', `/api/v1/runs/${run}/stop`, {})
  })

  /** The lists that have pages, what is shown of an entry, and how pages continue. */
  const lists = {
    runs: { page: `${path.runs}?group=${group}`, entry: name, from: 'cursor', next: 'next_cursor', entries: 'runs' },
    groups: { page: `${path.groups}?under=${group}`, entry: name, from: 'after', next: 'next_after', entries: 'groups' },
    approvals: { page: path.approvals, entry: /^Approve …/, from: 'after', next: 'next_after', entries: 'approvals' },
    schedules: { page: path.schedules, entry: name, from: 'after', next: 'next_after', entries: 'schedules' },
    changegroups: { page: path.changeGroups, entry: name, from: 'after', next: 'next_after', entries: 'changegroups' },
    audit: { page: `${path.audit}?action=putSchedule`, entry: 'put schedule', from: 'cursor', next: 'next_cursor', entries: 'records' },
  } as const
  for (const [list, { page: address, entry, from, next, entries }] of Object.entries(lists)) {
    it(`of ${list} whose first pages are empty shows what follows`, async () => {
      const { page, faults } = await open()
      // The gateway answers so after thousands of entries that do not match.
      await page.route((url) => url.pathname === `/api/v1/${list}`, (route) => {
        const url = new URL(route.request().url())
        const at = url.searchParams.get(from) ?? (url.searchParams.has('path') ? '' : 'first')
        const then: Record<string, string> = { first: 'second', second: 'third' }
        if (then[at]) return route.fulfill({ json: { [entries]: [], [next]: then[at] } })
        if (at === 'third') url.searchParams.delete(from)
        return route.continue({ url: url.href })
      })
      await page.goto(address)
      await settled(page)
      await page.getByRole('main').locator('table, [role=table], [role=grid], ul').getByText(entry).filter({ visible: true }).first().waitFor()
      expect(faults).toEqual([])
    })
  }

  it('of runs finds those with warnings, and those with a value of an input', async () => {
    const group = `/web/${fresh('found')}`
    const task = (script: string) => ({ lint: { allow_failure: true, steps: [{ run: script }] } })
    const inputs = { target: { default: 'test' } }
    const warned = await api.submit({ name: 'warned', group, inputs, tasks: task('exit 1') })
    const passed = await api.submit({ name: 'passed', group, inputs, input_values: { target: 'a=b & c' }, tasks: task('true') })
    for (const { id } of [warned, passed]) await api.await(id)
    const { page, faults } = await open()
    const filters = page.getByRole('search', { name: 'Filters of the runs' })
    const shows = async (listed: string, hidden: string) => {
      await on.row(page, listed).waitFor()
      await on.row(page, hidden).waitFor({ state: 'detached' })
    }
    await page.goto(`${path.runs}?group=${group}`)
    await on.row(page, 'passed').waitFor()
    await on.row(page, 'warned').waitFor()
    await filters.getByRole('button', { name: 'With warnings' }).click()
    await shows('warned', 'passed')
    await page.waitForURL((url) => url.searchParams.get('warnings') === 'true')
    await filters.getByRole('button', { name: 'With warnings', pressed: true }).click()
    await on.row(page, 'passed').waitFor()
    await page.waitForURL((url) => !url.searchParams.has('warnings'))

    await filters.getByRole('button', { name: 'More filters' }).click()
    await filters.getByRole('searchbox', { name: 'Input' }).fill('target=a=b & c')
    await page.keyboard.press('Enter')
    await shows('passed', 'warned')
    await page.reload() // the address has the filter
    await shows('passed', 'warned')
    await filters.getByRole('searchbox', { name: 'Input' }).fill('target=test')
    await page.keyboard.press('Enter')
    await shows('warned', 'passed')
    expect(faults).toEqual([])
  })

  it('says on a page behind its last entry that there are no more', async () => {
    const { page, faults } = await open()
    for (const [address, after, text] of [[path.approvals, `${run}:9`, 'approvals'], [path.schedules, 'zzzz', 'schedules'], [path.changeGroups, 'zzzz', 'change groups']] as const) {
      await page.goto(`${address}?after=${after}`)
      await settled(page)
      await page.getByRole('heading', { name: `There are no more ${text}.` }).waitFor()
      await page.getByRole('link', { name: 'First page' }).click()
      await page.getByRole('table').waitFor()
    }
    expect(faults).toEqual([])
  })
})
