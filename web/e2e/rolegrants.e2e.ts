import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'

import { violations } from './axe'
import { browserSuite, settled } from './browser'
import { Drover } from './drover'
import { on, path } from './names'

const grants = '/api/v1/rolegrants'

interface Grants {
  version: number
  note?: string
  grants: object[]
}

browserSuite('role grants', ({ api, open }) => {
  const dir = mkdtempSync(join(tmpdir(), 'drover-roles-'))
  let drover: Drover
  beforeAll(async () => {
    const file = join(dir, 'roles.yaml')
    writeFileSync(file, '- {members: ops, role: operator, groups: [/**]}\n')
    // Nothing of this needs an answer of the provider.
    drover = await Drover.start({ DROVER_GATEWAY__OIDC__ISSUER: 'http://127.0.0.1:9', DROVER_GATEWAY__OIDC__CLIENT_ID: 'drover', DROVER_GATEWAY__OIDC__ROLES_FILE: file })
  })
  afterAll(async () => {
    await drover?.stop()
    rmSync(dir, { recursive: true, force: true })
  })

  const show = async () => {
    const watched = await open({ to: drover })
    await watched.page.goto(path.roles)
    await settled(watched.page)
    return watched
  }
  const dialog = (page: Page) => on.dialog(page).filter({ visible: true })
  const save = (page: Page) => on.button(dialog(page), 'Save').click()
  const closed = (page: Page) => dialog(page).waitFor({ state: 'hidden' })

  it('are added, edited and deleted', async () => {
    const { page, faults } = await show()
    await on.row(page, 'members of ops').getByText('operator').waitFor()
    await on.button(page, /^Add a list/).click()
    await dialog(page).getByLabel('Name').fill('web')
    await dialog(page).getByLabel('Grants').fill('- {members: web, role: owner, groups: [/acme/**]}\n')
    await dialog(page).getByLabel('Note').fill('the web team')
    expect(await violations(page, 'all')).toEqual([])
    await save(page)
    await on.alert(dialog(page)).getByText('grants[0].role').waitFor()
    await dialog(page).getByLabel('Grants').fill('- {members: web, role: submitter, groups: [/acme/**]}\n- {subject: "*", role: viewer, groups: [/shared/**]}\n')
    await save(page)
    await closed(page)
    const row = on.row(page, 'the web team')
    await row.getByText('all users').waitFor()
    expect(await drover.get<Grants>(`${grants}/web`)).toMatchObject({
      note: 'the web team', grants: [{ members: 'web', role: 'submitter', groups: ['/acme/**'] }, { subject: '*', role: 'viewer', groups: ['/shared/**'] }],
    })
    expect(await violations(page, 'all')).toEqual([])

    await on.button(row, /^Edit/).click()
    expect(await dialog(page).getByLabel('Grants').inputValue()).toBe('- {members: "web", role: submitter, groups: [/acme/**]}\n- {subject: "*", role: viewer, groups: [/shared/**]}\n')
    await dialog(page).getByLabel('Grants').fill('')
    await save(page)
    await closed(page)
    await row.getByText('none').waitFor()

    await on.button(row, /^Delete/).click()
    await on.button(dialog(page), /^Delete/).click()
    await page.getByText('There are no stored grants.').waitFor()
    expect((await drover.get<{ rolegrants: object[] }>(grants)).rolegrants).toEqual([])
    expect(faults).toEqual([])
  })

  it('that were changed meanwhile are not overwritten', async () => {
    await drover.call('PUT', `${grants}/docs`, { grants: [], note: 'first' })
    const { page, faults } = await show()
    await on.button(on.row(page, 'docs'), /^Edit/).click()
    await drover.call('PUT', `${grants}/docs`, { grants: [], note: 'second' })
    await dialog(page).getByLabel('Note').fill('third')
    await save(page)
    await on.alert(dialog(page)).getByText('changed the role grants docs').waitFor()
    await on.button(dialog(page), 'Load the present state').click()
    await until(page, 'second')
    await dialog(page).getByLabel('Note').fill('third')
    await save(page)
    await closed(page)
    expect((await drover.get<Grants>(`${grants}/docs`)).note).toBe('third')
    expect(faults).toEqual([])
  })

  const until = (page: Page, note: string) => page.waitForFunction((want) => [...document.querySelectorAll('input')].some((e) => e.value === want), note)

  it('need an identity provider', async () => {
    const { page } = await open({ to: api })
    await page.goto(path.roles)
    await page.getByText('This gateway has no identity provider.').waitFor()
  })
})
