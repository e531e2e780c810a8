import { expect, it } from 'vitest'

import { violations } from './axe'
import { browserSuite, settled } from './browser'
import { Client } from './drover'
import { on, path } from './names'
import { fresh, Gate, specs } from './specs'

browserSuite('the page of a run', ({ api, open }) => {
  it('tells a failure that is allowed from another, on every page', async () => {
    const group = `/web/${fresh('allowed')}`
    const fails = { steps: [{ run: 'exit 3' }] }
    const run = await api.submit({ name: 'lenient', group, tasks: { build: { steps: [{ run: 'echo built' }] }, lint: { ...fails, allow_failure: true } } })
    await api.await(run.id)
    const { page, faults } = await open()
    const go = async (address: string) => {
      await page.goto(address)
      await settled(page)
    }
    await go(path.run(run.id))
    await on.outcome(page, 'success with warnings').waitFor()
    expect(await page.getByRole('img', { name: '1 failed (allowed), 1 success' }).count()).toBe(1)
    await on.button(page, '1 failed (allowed)').waitFor()
    const card = page.locator('.card').filter({ hasText: 'lint' })
    await card.getByText('failed (allowed)').waitFor()
    expect(await card.getAttribute('data-kind')).toBe('warnings')
    await go(path.tasks(run.id))
    await on.row(page, 'lint').getByText('failed (allowed)').waitFor()
    await on.button(page, /^failed \(allowed\) 1/).click()
    await page.getByText('1 of 2 tasks').waitFor()
    await go(path.task(run.id, 'lint'))
    await page.getByRole('main').getByText('failed (allowed)').waitFor()
    await go(`${path.runs}?group=${group}`)
    await on.row(page, 'lenient').getByText('success with warnings').waitFor()
    expect(await on.row(page, 'lenient').getByRole('img', { name: '1 failed (allowed), 1 success' }).count()).toBe(1)
    await go(`${path.groups}?under=${group}`)
    await page.getByRole('listitem').filter({ hasText: 'lenient' }).last().getByText('success with warnings').waitFor()
    expect(faults).toEqual([])
  })

  it('shows what names of a matrix differ in', async () => {
    const run = await api.submit({ name: 'long names', group: '/web/tests', tasks: { build: { matrix: { ARCH: ['arm64', 'amd64'], OS: ['linux', 'windows', 'freebsd'], TOOLCHAIN: ['1.26'] }, steps: [{ run: 'true' }] } } })
    await api.await(run.id)
    const { page, faults } = await open()
    const want = ['arm64', 'amd64'].flatMap((a) => ['linux', 'windows', 'freebsd'].map((o) => `build[${a},${o}]`)).sort()
    for (const [address, labels] of [[path.timeline(run.id), '.lane > a > span'], [path.tasks(run.id), '[role=row] a']] as const) {
      await page.goto(address)
      await settled(page)
      const shown = page.locator(labels)
      await expect.poll(() => shown.count(), { message: address }).toBe(6)
      expect((await shown.allTextContents()).sort(), address).toEqual(want)
      expect(await violations(page, 'all'), address).toEqual([])
      expect(await shown.evaluateAll((all) => all.filter((e) => e.scrollWidth > e.clientWidth && getComputedStyle(e).display !== 'inline').length), `${address}: names that are cut`).toBe(0)
    }
    expect(await page.getByTitle('build[ARCH=arm64,OS=linux,TOOLCHAIN=1.26]').count()).toBe(1)
    expect(faults).toEqual([])
  })

  it('has the graph, or the log, in the first view of a window of 1280 x 800', async () => {
    const gate = new Gate()
    const steps = [{ run: `echo begun; ${gate.wait}` }]
    const matrix = { N: Array.from({ length: 12 }, (_, i) => String(i)) }
    const healthy = await api.submit({ name: 'healthy', group: '/web/tests', tasks: { work: { steps }, after: { depends: ['work'], matrix, steps }, report: { depends: ['after'], steps } } })
    await api.awaitTask(healthy.id, 'work', 'running')
    const failed = await api.submit(specs.failing)
    await api.await(failed.id)
    // Tasks that name no pool take the first one by name: this name comes after that of the executor's pool.
    await api.call('PUT', '/api/v1/pools/without-executors', { driver: 'shell' })
    const waits = await api.submit({ name: 'waits', group: '/web/tests', tasks: { ask: { approval: true, steps }, queued: { pool: 'without-executors', matrix, steps }, after: { depends: ['ask'], matrix, steps } } })
    await api.awaitTask(waits.id, 'ask', 'waiting_approval')
    await api.awaitTask(waits.id, 'queued[N=3]', 'queued')
    const { page, faults } = await open({ viewport: { width: 1280, height: 800 } })
    const top = async (selector: string) => {
      const box = await page.locator(selector).boundingBox()
      const footer = await page.getByRole('contentinfo').boundingBox()
      expect(box!.y + box!.height, `the end of ${selector} at ${page.url()}`).toBeLessThanOrEqual(footer!.y)
      return box!.y
    }
    const why = page.getByRole('region', { name: 'Why it waits' })
    for (const [address, view, most] of [[path.run(healthy.id), '.graph', 260], [path.run(waits.id), '.graph', 330], [path.run(failed.id), '.graph', 430], [path.task(failed.id, 'test'), '.log', 350]] as const) {
      await page.goto(address)
      await settled(page)
      expect(await top(view), `${address} ${view}`).toBeLessThan(most)
      if (address === path.run(healthy.id)) expect(await why.count(), 'a run that works off its graph').toBe(0)
    }
    // A line for each kind, with what the user can do; the rest is there on demand.
    await page.goto(path.run(waits.id))
    await expect.poll(() => why.getByRole('listitem').count()).toBe(2)
    await why.getByText(/^12 tasks: no executor of pool without-executors/).waitFor()
    await on.button(why, /^Approve or reject/).waitFor()
    await on.button(why, 'Why it waits').click()
    await why.getByText(/^drover runs approve/).waitFor()
    expect(await why.getByText('no executor of pool without-executors', { exact: false }).count()).toBeGreaterThan(12)
    expect(await violations(page, 'all')).toEqual([])
    await page.goto(path.run(failed.id))
    await page.getByRole('region', { name: 'What to do next' }).getByRole('link', { name: 'Log' }).click()
    await on.logText(page, 'FAIL: total is 3, want 4').waitFor()
    expect(await page.getByRole('region', { name: 'What to do next' }).count(), 'on the page of the log').toBe(0)
    await api.call('POST', `/api/v1/runs/${waits.id}/stop`, {})
    gate.open()
    expect(faults).toEqual([])
  })

  it('says that tests failed, also in a run that succeeded', async () => {
    const run = await api.submit({
      name: 'green', group: '/web/tests',
      tasks: { test: { steps: [
        { run: 'mkdir out; printf \'<testsuite name="sums"><testcase name="adds"/><testcase name="totals"><failure message="3, want 4"/></testcase></testsuite>\' > out/junit.xml' },
        { save_artifacts: { name: 'report', paths: ['out'], junit: true } },
      ] } },
    })
    await api.await(run.id)
    const { page, faults } = await open()
    await page.goto(path.run(run.id))
    await on.outcome(page, 'success').waitFor()
    await page.getByRole('link', { name: 'Results 1 failed' }).waitFor()
    await page.getByRole('link', { name: '1 of 2 tests failed' }).click()
    await page.getByRole('heading', { name: 'Tests 2 tests, 1 failed' }).waitFor()
    expect(faults).toEqual([])
  })

  it('is submitted with inputs in the order of the file, and shows what an empty field means', async () => {
    const { page, faults } = await open()
    await page.goto(path.submit)
    await page.getByRole('textbox', { name: 'Run file' }).click()
    await page.keyboard.press('Control+A')
    await page.keyboard.press('Delete') // Chromium gives text that replaces coloured text a style attribute, which the policy refuses
    await page.keyboard.insertText(JSON.stringify({
      name: 'sizes', group: '/web/tests', input_values: { size: 3 }, tasks: { one: { steps: [{ run: 'true' }] } },
      inputs: { zone: { type: 'choice', options: ['a', 'b'], default: 'b' }, size: { type: 'number', required: true }, owner: { type: 'string' }, fast: { type: 'boolean', default: true } },
    }))
    const form = page.getByRole('group', { name: 'Inputs' })
    await expect.poll(() => form.locator('label > .mono').allTextContents()).toEqual(['zone', 'size', 'owner', 'fast'])
    expect(await form.getByLabel('zone').locator('option').first().textContent()).toBe('as in the file: b')
    expect(await form.getByLabel('size').getAttribute('placeholder')).toBe('as in the file: 3')
    expect(await form.getByLabel('owner').getAttribute('placeholder')).toBe('no value')
    expect(await form.getByLabel('fast').locator('option').first().textContent()).toBe('as in the file: true')
    expect(faults).toEqual([])
  })

  it('is submitted with inputs of a form that marks those whose values are refused', async () => {
    const { page, faults } = await open()
    await page.goto(path.submit)
    await page.getByRole('textbox', { name: 'Run file' }).click()
    await page.keyboard.press('Control+A')
    await page.keyboard.insertText(JSON.stringify({
      name: 'sizes', group: '/web/tests', input_values: { size: 3 }, tasks: { one: { steps: [{ run: 'true' }] } },
      inputs: { zone: { required: true }, size: { type: 'number', default: 1 } },
    }))
    const form = page.getByRole('group', { name: 'Inputs' })
    const [zone, size] = [form.getByLabel('zone'), form.getByLabel('size')]
    await size.fill('many')
    await page.getByRole('button', { name: 'Start now' }).click()
    const notice = page.getByRole('alert').filter({ hasText: 'Input' })
    await notice.waitFor()
    expect(await notice.getByRole('listitem').allTextContents()).toEqual(['Input size: "many" is not a number such as 3 or 0.5', 'Input zone: the input "zone" is required'])
    const marks = () => Promise.all([zone, size].map(async (field) => [await field.getAttribute('aria-invalid'), await field.evaluate((e) => document.getElementById(e.getAttribute('aria-describedby')!)?.textContent)]))
    expect(await marks()).toEqual([['true', 'the input "zone" is required'], ['true', '"many" is not a number such as 3 or 0.5']])
    await zone.fill('a')
    await size.fill('4')
    expect(await marks()).toEqual([['false', undefined], ['false', undefined]])
    await page.getByRole('button', { name: 'Start now' }).click()
    await page.waitForURL(/\/runs\//)
    expect(faults).toEqual([])
  })

  it('is restarted in a dialog that marks the fields of inputs and secrets whose values are refused', async () => {
    const { token } = await api.call<{ token: string }>('POST', '/api/v1/tokens', { name: fresh('other'), scopes: ['read', 'write'] })
    const run = await new Client({ url: api.url, token }).submit({
      name: 'versions', group: '/web/tests', inputs: { version: { type: 'number', required: true } }, input_values: { version: 3 },
      secrets: { PASSWORD: 'of another user' }, tasks: { one: { steps: [{ run: 'true' }] } },
    })
    await api.await(run.id)
    const { page, faults } = await open()
    await page.goto(path.run(run.id))
    await settled(page)
    await on.button(page.getByRole('main'), /^restart/i).first().click()
    const dialog = on.dialog(page).filter({ visible: true })
    const [version, password] = [dialog.getByLabel('version'), dialog.getByLabel('PASSWORD')]
    const marks = () => Promise.all([version, password].map(async (field) => (await field.getAttribute('aria-invalid')) && field.evaluate((e) => document.getElementById(e.getAttribute('aria-describedby')!)!.textContent)))
    const restart = on.button(dialog, 'Restart')
    await version.fill('many')
    await restart.click()
    await on.alert(dialog).getByText(/^Secret PASSWORD: another subject gave its value/).waitFor()
    expect(await marks()).toEqual([null, expect.stringMatching(/give the value again$/)])
    expect(await violations(page, 'all')).toEqual([])
    await password.fill('of this user')
    expect(await marks()).toEqual([null, null])
    await restart.click()
    await on.alert(dialog).getByText('Input version: "many" is not a number such as 3 or 0.5').waitFor()
    expect(await marks()).toEqual(['"many" is not a number such as 3 or 0.5', null])
    await version.fill('4')
    expect(await marks()).toEqual([null, null])
    await restart.click()
    await page.waitForURL((url) => url.pathname.startsWith('/runs/') && !url.pathname.includes(run.id))
    expect(faults).toEqual([])
  })

  it('is written in an editor that replaces a selection by plain text, and loses nothing of it', async () => {
    const { page, faults } = await open()
    await page.goto(path.submit)
    const editor = page.getByRole('textbox', { name: 'Run file' })
    await editor.click()
    for (let i = 0; i < 10; i++) {
      await page.keyboard.press('Control+A')
      await page.keyboard.insertText('# a comment')
      await editor.locator('.cm-line > span', { hasText: '# a comment' }).waitFor() // it has a style
      await page.keyboard.press('Control+A')
      if (i % 2) await page.keyboard.insertText('name: x')
      else await page.keyboard.type('name: x')
      await expect.poll(() => editor.textContent()).toBe('name: x')
    }
    // Brackets are put around a selection.
    await page.keyboard.press('Control+A')
    await page.keyboard.type('[')
    await expect.poll(() => editor.textContent()).toBe('[name: x]')
    expect(faults).toEqual([])
  })

  it('of a schedule: its times are in the zone of the schedule, with its name', async () => {
    const name = fresh('berlin')
    await api.call('PUT', `/api/v1/schedules/${name}`, { spec: { ...specs.approval, group: '/web/tests' }, cron: ['0 3 * * *'], timezone: 'Europe/Berlin' })
    const { page, faults } = await open({ timezoneId: 'America/New_York' })
    for (const address of [path.schedules, `${path.schedules}/${name}`]) {
      await page.goto(address)
      await settled(page)
      await page.getByText(/ 03:00:00 Europe\/Berlin/).first().waitFor()
    }
    await api.call('DELETE', `/api/v1/schedules/${name}`)
    expect(faults).toEqual([])
  })
})
