import { expect, it } from 'vitest'

import { browserSuite, settled } from './browser'
import { on, path } from './names'
import { fresh } from './specs'

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
      expect(await shown.evaluateAll((all) => all.filter((e) => e.scrollWidth > e.clientWidth && getComputedStyle(e).display !== 'inline').length), `${address}: names that are cut`).toBe(0)
    }
    expect(await page.getByRole('link', { name: 'build[ARCH=arm64,OS=linux,TOOLCHAIN=1.26]' }).count()).toBe(1)
    expect(faults).toEqual([])
  })
})
