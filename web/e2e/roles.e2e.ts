import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'

import type { components } from '../src/api/schema.gen'
import { violations } from './axe'
import { browserSuite, settled } from './browser'
import { Client, until } from './drover'
import { approve, confirmed, lacks, on, path } from './names'
import { fresh, Gate, specs } from './specs'

type Role = components['schemas']['RoleBinding']['role']

const own = '/roles/own'
const foreign = '/roles/other'

browserSuite('a user with a role in one group', ({ api, open }) => {
  const gate = new Gate()
  const approval = { ...specs.approval, group: own }
  let failed: string
  let others: string
  beforeAll(async () => {
    failed = (await api.submit({ ...specs.failing, name: 'ours', group: own })).id
    others = (await api.submit({ ...specs.failing, name: 'theirs', group: foreign })).id
    await api.await(failed)
    await api.await(others)
  })
  afterAll(() => gate.open())

  const users = new Map<Role, Promise<Client>>()
  /** userOf returns a client whose token has a role in the group. There is one for each role, because logins are limited. */
  function userOf(role: Role): Promise<Client> {
    const user = users.get(role) ?? newUser(role)
    users.set(role, user)
    return user
  }

  async function newUser(role: Role): Promise<Client> {
    const name = fresh(role)
    const { token } = await api.call<{ token: string }>('POST', '/api/v1/tokens', { name, bindings: [{ role, groups: [`${own}/**`] }] })
    const user = new Client({ url: api.url, token })
    await until(`the token ${name} to be accepted`, async () => {
      const { status } = await fetch(`${user.url}/api/v1/session`, { headers: { authorization: `Bearer ${token}` } })
      return { done: status === 200 || undefined, state: String(status) }
    })
    return user
  }

  /** waiting returns a run that waits for approval. */
  async function waiting(): Promise<string> {
    const { id } = await api.submit(approval)
    await api.awaitTask(id, 'release', 'waiting_approval')
    return id
  }

  const go = async (page: Page, address: string) => {
    await page.goto(address)
    await settled(page)
  }
  const main = (page: Page) => page.getByRole('main')
  const links = (page: Page) => page.getByRole('navigation', { name: 'Main' }).getByRole('link').allTextContents()

  it('as a viewer sees its runs only, and no action that can be used', async () => {
    const { page, faults } = await open({ to: await userOf('viewer') })
    const waits = await waiting()
    await go(page, path.runs)
    await on.row(page, 'ours').first().waitFor()
    expect(await on.row(page, 'theirs').count()).toBe(0)
    expect(await links(page)).toEqual(['Runs', 'Approvals', 'Operations'])
    expect(await lacks(on.button(main(page), 'Submit a run'))).toBe('Needs the role submitter in a group.')
    await on.row(page, 'ours').first().getByRole('checkbox').check()
    for (const button of await on.button(page.getByRole('toolbar'), /…$/).all()) expect(await lacks(button), (await button.textContent())!).toContain(own)

    const found: string[] = []
    for (const address of [path.run(failed), path.details(failed), path.task(failed, 'test'), path.run(waits), path.task(waits, 'release'), path.approvals]) {
      await go(page, address)
      const buttons = await on.button(main(page), /…$/).all()
      expect(buttons.length, address).toBeGreaterThan(0)
      for (const button of buttons) expect(await lacks(button), `${address}: ${await button.textContent()}`).toMatch(/^Needs the role (submitter|approver|admin) in \/roles\/own\.$/)
      found.push(...(await violations(page, 'all')).map((v) => `${address}: ${v}`))
    }
    expect(found.join('\n')).toBe('')
    expect(faults).toEqual([])
  })

  it('reads only the commands that it may use', async () => {
    const commands = async (page: Page, address: string) => {
      await go(page, address)
      const why = on.button(main(page), /^(Why it waits|What to do next)$/)
      for (const button of await why.all()) await button.click()
      return (await on.button(main(page), /^Copy: /).evaluateAll((all) => all.map((b) => b.getAttribute('aria-label')!))).map((c) => c.split(' ').slice(1, 4).join(' '))
    }
    await api.call('PUT', '/api/v1/changegroups/roles', { max_running: 1 })
    const waits = (await api.submit({ ...approval, changegroups: ['roles'] })).id
    await api.awaitTask(waits, 'release', 'waiting_approval')
    const limited = await api.submit({ ...specs.failing, name: 'limited', group: own, changegroups: ['roles'] })
    const queued = await api.submit({ ...specs.failing, name: 'manual', group: own, admission: 'manual' })
    await api.call('PUT', '/api/v1/pools/none-started', { driver: 'shell' })
    const stuck = await api.submit({ name: 'stuck', group: own, tasks: { t: { pool: 'none-started', steps: [{ run: 'true' }] } } })
    await api.awaitTask(stuck.id, 't', 'queued')
    const expected = {
      viewer: { start: [], approve: [], restart: ['drover logs FAILED'] },
      approver: { start: [], approve: ['drover runs approve'], restart: ['drover logs FAILED'] },
      submitter: { start: ['drover runs start'], approve: [], restart: ['drover logs FAILED', 'drover runs restart'] },
    } as const
    for (const role of ['viewer', 'approver', 'submitter'] as const) {
      const { page, faults } = await open({ to: await userOf(role) })
      expect(await commands(page, path.run(queued.id)), role).toEqual(expected[role].start)
      expect(await commands(page, path.run(waits)), role).toEqual(expected[role].approve)
      expect(await commands(page, path.task(waits, 'release')), role).toEqual(expected[role].approve)
      expect((await commands(page, path.run(failed))).map((c) => c.replace(failed, 'FAILED')), role).toEqual(expected[role].restart)
      expect(await commands(page, path.run(limited.id)), role).toEqual([])
      expect(await commands(page, path.run(stuck.id)), role).toEqual(['drover pools get'])
      expect(faults).toEqual([])
    }
    for (const { id } of [limited, queued]) await api.call('POST', `/api/v1/runs/${id}/cancel`, {})
    for (const id of [waits, stuck.id]) await api.call('POST', `/api/v1/runs/${id}/stop`, { force: true })
    await api.await(stuck.id)
    // Later tasks that name no pool are not for it.
    await api.call('DELETE', '/api/v1/pools/none-started')
  })

  it('learns by the keyboard what a button needs', async () => {
    const { page, faults } = await open({ to: await userOf('viewer') })
    await go(page, path.run(failed))
    const button = on.button(main(page), /^Delete/)
    await button.focus()
    expect(await button.evaluate((e) => e === document.activeElement)).toBe(true)
    const text = page.getByRole('tooltip').getByText('Needs the role admin in /roles/own.')
    await text.waitFor()
    await page.keyboard.press('Escape')
    await text.waitFor({ state: 'hidden' })
    await page.keyboard.press('Enter')
    await text.waitFor()
    expect(await on.dialog(page).count()).toBe(0)
    expect(faults).toEqual([])
  })

  it('finds no run of another group, and no page that needs a role in all groups', async () => {
    const { page, faults } = await open({ to: await userOf('operator') })
    await page.goto(path.run(others))
    await on.alert(page).getByText(`there is no run ${others}`).waitFor()
    for (const [address, text] of [
      [path.audit, 'Needs the role admin in all groups, /**.'],
      [path.tokens, 'Needs the role admin in all groups, /**.'],
      [path.roles, 'Needs the role admin in all groups, /**.'],
      [path.webhooks, 'Needs the role admin in all groups, /**.'],
      [path.executors, 'Needs the role viewer in all groups, /**.'],
    ] as const) {
      await go(page, address)
      await on.alert(page).getByText(text).waitFor()
      expect(await violations(page, 'all'), address).toEqual([])
    }
    await go(page, '/operations')
    await page.waitForURL((url) => url.pathname === path.pools)
    expect(await page.getByRole('navigation', { name: 'Operations' }).getByRole('link').allTextContents()).toEqual(['Pools', 'Fleets', 'Schedules'])
    await go(page, path.pools)
    expect(await lacks(on.button(main(page), /^Edit/).first())).toBe('Needs the role admin in all groups, /**.')
    expect(await violations(page, 'all')).toEqual([])
    expect(faults).toEqual([])
  })

  it('as a submitter submits, stops and restarts, and approves nothing', async () => {
    const { page, faults } = await open({ to: await userOf('submitter') })
    const running = await api.submit({ ...specs.waits(gate), group: own })
    await api.awaitTask(running.id, 'work', 'running')
    await go(page, path.run(running.id))
    await confirmed(page, on.button(main(page), /^stop/i).first(), /^stop/i)
    await on.outcome(page, 'stopped').waitFor()
    await on.button(main(page), /^restart/i).first().click()
    await on.dialog(page).getByRole('radio', { name: /from the start/ }).check()
    await on.button(on.dialog(page), /^restart/i).click()
    await page.waitForURL((url) => url.pathname.startsWith('/runs/') && !url.pathname.includes(running.id))
    expect(await lacks(on.button(main(page), /^stop/i).first())).toBe(null)

    const waits = await waiting()
    await go(page, path.task(waits, 'release'))
    expect(await lacks(on.button(main(page), /^approve/i).first())).toBe('Needs the role approver in /roles/own.')
    await go(page, path.approvals)
    expect(await lacks(on.button(on.row(page, own).first(), /^approve/i))).toBe('Needs the role approver in /roles/own.')

    await go(page, path.submit)
    await page.getByText('You may submit runs in /roles/own, and below.').waitFor()
    const group = page.getByLabel('Group', { exact: true })
    expect(await group.inputValue(), 'templates begin in a group of the user').toMatch(/^\/roles\/own\//)
    expect(await lacks(on.button(main(page), 'Create only'))).toBe(null)
    await group.fill(foreign)
    await expect.poll(() => lacks(on.button(main(page), 'Create only'))).toBe('Needs the role submitter in /roles/other.')
    expect(await violations(page, 'all')).toEqual([])
    await group.fill(`${own}/mine`)
    await expect.poll(() => lacks(on.button(main(page), 'Create only'))).toBe(null)
    await on.button(main(page), 'Create only').click()
    await page.waitForURL((url) => url.pathname.startsWith('/runs/'))
    await main(page).getByRole('link', { name: `${own}/mine` }).waitFor()
    await confirmed(page, on.button(main(page), /^stop/i).first(), /^stop/i)
    await api.await(new URL(page.url()).pathname.split('/')[2]!, ['cancelled'])
    expect(faults).toEqual([])
  })

  it('as an approver approves, and stops nothing', async () => {
    const { page, faults } = await open({ to: await userOf('approver') })
    const waits = await waiting()
    await go(page, path.task(waits, 'release'))
    expect(await lacks(on.button(main(page), /^stop/i).first())).toBe('Needs the role submitter in /roles/own.')
    await approve(page)
    await on.outcome(page, 'success').waitFor()
    expect(await lacks(on.button(main(page), /^restart/i).first())).toBe('Needs the role submitter in /roles/own.')
    await go(page, path.submit)
    await on.alert(page).getByText('Needs the role submitter in a group.').waitFor()
    expect(faults).toEqual([])
  })

  it('as an operator does both, and deletes nothing', async () => {
    const { page, faults } = await open({ to: await userOf('operator') })
    const waits = await waiting()
    await go(page, path.task(waits, 'release'))
    expect(await lacks(on.button(main(page), /^stop/i).first())).toBe(null)
    await approve(page)
    await on.outcome(page, 'success').waitFor()
    expect(await lacks(on.button(main(page), /^restart/i).first())).toBe(null)
    expect(await lacks(on.button(main(page), /^delete/i).first())).toBe('Needs the role admin in /roles/own.')
    expect(faults).toEqual([])
  })

  for (const role of ['viewer', 'submitter', 'approver', 'operator', 'admin'] as const) {
    it(`as ${role}: the pages that are offered ask for nothing that is refused`, async () => {
      const { page, faults } = await open({ to: await userOf(role) })
      const refused: string[] = []
      page.on('response', (r) => { if (r.status() === 403) refused.push(`${new URL(page.url()).pathname}: ${r.request().method()} ${r.url()}`) })
      const to = (nav: string) => page.getByRole('navigation', { name: nav }).getByRole('link').evaluateAll((links) => links.map((l) => l.getAttribute('href')!))
      await go(page, path.operations)
      const pages = [...(await to('Main')), ...(await to('Operations'))]
      await go(page, path.pools)
      pages.push(...(await main(page).getByRole('table').getByRole('link').evaluateAll((links) => links.map((l) => l.getAttribute('href')!))))
      await go(page, path.run(failed))
      pages.push(...(await to('Views of the run')), path.task(failed, 'test'), path.groups)
      expect(pages.length).toBeGreaterThan(13)
      for (const address of pages) {
        await go(page, address)
        expect(await on.alert(page).count(), address).toBe(0)
      }
      expect(refused).toEqual([])
      expect(faults).toEqual([])
    })
  }

  it('sees who may decide, and decides only what waits for them', async () => {
    const user = await userOf('approver')
    const { subject } = await user.get<components['schemas']['Session']>('/api/v1/session')
    const release = { ...approval.tasks.release, depends: [] }
    const run = await api.submit({ name: 'deciders', group: own, tasks: {
      others: { ...release, approval: { approvers: 1, from: ['cyd', 'dan'] } },
      both: { ...release, approval: { approvers: 2, from: [subject, 'dan'] } },
      any: release,
    } })
    for (const task of ['others', 'both', 'any']) await api.awaitTask(run.id, task, 'waiting_approval')
    const { page, faults } = await open({ to: user })
    await go(page, path.approvals)
    const row = (task: string) => on.row(page, 'deciders').filter({ has: page.getByRole('link', { name: task, exact: true }) })
    const states = async (task: string) => [await lacks(on.button(row(task), /^Approve/)), await lacks(on.button(row(task), /^Reject/))]
    await row('others').getByText('cyd or dan', { exact: true }).waitFor()
    await row('any').getByText('anyone with the role approver in /roles/own, or with the scope write', { exact: true }).waitFor()
    expect(await states('others')).toEqual(Array(2).fill('Only cyd or dan can decide.'))
    expect(await states('both')).toEqual([null, null])
    await confirmed(page, on.button(row('both'), /^Approve/), /^Approve/)
    await expect.poll(() => states('both')).toEqual(['You have approved it already.', null])
    expect(await states('any')).toEqual([null, null])
    expect(await violations(page, 'all')).toEqual([])

    await go(page, path.task(run.id, 'others'))
    expect(await lacks(on.button(main(page), /^Approve or reject/).first())).toBe('Only cyd or dan can decide.')
    await go(page, path.task(run.id, 'both'))
    await on.button(main(page), /^Approve or reject/).last().click()
    expect(await lacks(on.button(on.dialog(page), 'Approve'))).toBe('You have approved it already.')
    await on.button(on.dialog(page), 'Close').click()
    await api.call('POST', `/api/v1/runs/${run.id}/stop`, {})
    expect(faults).toEqual([])
  })

  it('reads what the server says if it refuses all the same', async () => {
    const user = await userOf('submitter')
    const { page, faults } = await open({ to: user })
    // As if the roles had changed since the page was opened.
    await page.route('**/api/v1/session', async (route) => {
      const response = await route.fetch()
      const session = (await response.json()) as components['schemas']['Session']
      await route.fulfill({ response, json: { ...session, bindings: [{ role: 'admin', groups: ['/**'] }] } })
    })
    await go(page, path.run(failed))
    await page.unroute('**/api/v1/session')
    await confirmed(page, on.button(main(page), /^delete/i).first(), /^delete/i)
    await on.alert(page).getByText(/does not have the role admin in the group \/roles\/own/).waitFor()
    // The page asks who the user is again.
    await on.button(on.dialog(page), 'Close').click()
    await expect.poll(() => lacks(on.button(main(page), /^delete/i).first())).toBe('Needs the role admin in /roles/own.')
    expect(faults).toEqual([])
  })
})
