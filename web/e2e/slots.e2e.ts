import { afterAll, expect, it } from 'vitest'

import { browserSuite, settled } from './browser'
import { on, path } from './names'
import { fresh, Gate } from './specs'

browserSuite('the slots of tasks', ({ api, open }) => {
  const runs: string[] = []
  afterAll(async () => { for (const id of runs) await api.call('POST', `/api/v1/runs/${id}/stop`, { force: true }).catch(() => undefined) })

  it('are shown as they are taken and given back', async () => {
    const group = fresh('lab')
    const gate = new Gate()
    const spec = { name: 'deploys', group: '/web/tests', tasks: { deploy: { approval: true, changegroups: [{ name: group, units: 5 }], steps: [{ run: gate.wait }] } } }
    await api.call('PUT', `/api/v1/changegroups/${group}`, { max_running: 2 })
    const submit = async () => {
      const { id } = await api.submit(spec)
      runs.push(id)
      await api.awaitTask(id, 'deploy', 'waiting_approval')
      return id
    }
    const first = await submit()
    const second = await submit()
    const { page, faults } = await open()
    await page.goto(`${path.changeGroups}/${group}`)
    await settled(page)
    await page.getByText('0 of 2', { exact: true }).waitFor()

    // None of what follows changes a run, only a task.
    await api.call('POST', `/api/v1/runs/${first}/tasks/deploy/approve`, {})
    await page.getByText('2 of 2', { exact: true }).waitFor()
    await page.getByRole('heading', { name: 'Tasks that hold slots (1)', level: 2 }).waitFor()
    await api.awaitTask(first, 'deploy', 'running')
    await api.call('POST', `/api/v1/runs/${second}/tasks/deploy/approve`, {})
    await page.getByRole('heading', { name: 'Tasks that wait (1)', level: 2 }).waitFor()

    const list = await open()
    await list.page.goto(`${path.changeGroups}?after=${group.slice(0, -1)}`)
    const row = on.row(list.page, group)
    await row.getByText('2 of 2', { exact: true }).waitFor()
    expect(await row.getByRole('cell', { name: '1', exact: true }).count()).toBe(1)

    const run = await open()
    await run.page.goto(path.run(second))
    await run.page.getByText(`waits for change group ${group}: position 1 in queue, 2 of 2 slots held by ${first}`).filter({ visible: true }).first().waitFor()
    await run.page.goto(path.task(first, 'deploy'))
    await run.page.getByText('holds its slots', { exact: true }).waitFor()
    await run.page.getByRole('main').getByRole('link', { name: group, exact: true }).click()
    await on.heading(run.page, group).waitFor()

    gate.open()
    await page.getByRole('heading', { name: 'Tasks that wait (1)', level: 2 }).waitFor({ state: 'detached' })
    await page.getByText('0 of 2', { exact: true }).waitFor()
    expect([...faults, ...list.faults, ...run.faults]).toEqual([])
  })
})
