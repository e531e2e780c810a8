import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'

import { violations } from './axe'
import { browserSuite, settled } from './browser'
import { Drover } from './drover'
import { Identity } from './identity'
import { lacks, logOut, on, path } from './names'
import { specs } from './specs'

const group = '/acme/web'

browserSuite('a user of an identity provider', ({ open }) => {
  let identity: Identity
  let drover: Drover
  let ours: string
  let theirs: string
  beforeAll(async () => {
    identity = await Identity.reserve()
    drover = await Drover.start(identity.settings)
    await identity.start(drover.url)
    await drover.call('PUT', '/api/v1/rolegrants/web', { grants: [{ members: 'web', role: 'submitter', groups: ['/acme/**'] }] })
    ours = (await drover.submit({ ...specs.failing, name: 'ours', group })).id
    theirs = (await drover.submit({ ...specs.failing, name: 'theirs', group: '/other/web' })).id
    for (const id of [ours, theirs]) await drover.await(id)
  }, 300_000)
  afterAll(async () => {
    await drover?.stop()
    await identity?.stop()
  })

  const main = (page: Page) => page.getByRole('main')
  const links = (page: Page) => page.getByRole('navigation', { name: 'Main' }).getByRole('link').allTextContents()
  /** The pages of the provider are on another server. */
  const own = (faults: string[]) => faults.filter((f) => !f.startsWith(`request: ${identity.url}`))
  const logIn = async (page: Page, user: string) => {
    await on.button(page, 'Log in with Example').click()
    await page.getByLabel('Username:').fill(user)
    await page.getByLabel('Password:').fill('verysecure')
    await page.getByRole('button', { name: 'Login' }).click()
  }

  it('whose group has a role in a group of runs sees these, and may do what the role allows', async () => {
    await identity.setGroups('id1', ['web'])
    const { page, faults } = await open({ to: drover, login: false })
    await page.goto(`${path.runs}?q=ours`)
    await logIn(page, 'test-user@127.0.0.1')
    await on.row(page, 'ours').first().waitFor()
    await settled(page)
    expect(new URL(page.url()).search, 'the page that asked for the login').toBe('?q=ours')
    await page.goto(path.runs)
    await on.row(page, 'ours').first().waitFor()
    expect(await on.row(page, 'theirs').count()).toBe(0)
    expect(await links(page)).toEqual(['Runs', 'Submit', 'Approvals', 'Operations'])
    await page.goto(path.run(theirs))
    await on.alert(page).getByText(`there is no run ${theirs}`).waitFor()
    await page.goto(path.tokens)
    await on.alert(page).getByText('Needs the role admin in all groups, /**.').waitFor()
    await main(page).getByText('You are oidc:test-user@zitadel.ch, with the role submitter in /acme/**.').waitFor()
    expect(await violations(page, 'all')).toEqual([])

    await page.goto(path.run(ours))
    await settled(page)
    expect(await lacks(on.button(main(page), /^delete/i).first())).toBe('Needs the role admin in /acme/web.')
    await on.button(main(page), /^restart/i).first().click()
    await on.dialog(page).getByRole('radio', { name: /from the start/ }).check()
    await on.button(on.dialog(page), /^restart/i).click()
    await page.waitForURL((url) => url.pathname.startsWith('/runs/') && !url.pathname.includes(ours))
    const restarted = new URL(page.url()).pathname.split('/')[2]!
    await drover.await(restarted)
    expect((await drover.get<{ created_by?: string }>(`/api/v1/runs/${restarted}`)).created_by).toBe('oidc:test-user@zitadel.ch')
    await logOut(page)
    await on.button(page, 'Log in with Example').waitFor()
    expect(own(faults)).toEqual([])
  })

  it('without a role is told so, and sees what was granted after the next login', async () => {
    const { page, faults } = await open({ to: drover, login: false })
    await page.goto(path.run(ours))
    await logIn(page, 'test-user2')
    await on.alert(page).getByText('oidc:test-user2@zitadel.ch').waitFor()
    expect(await violations(page, 'all')).toEqual([])
    expect(await links(page)).toEqual([])
    expect((await page.request.get('/api/v1/runs')).status()).toBe(401)

    await drover.call('PUT', '/api/v1/rolegrants/one', { grants: [{ subject: 'test-user2@zitadel.ch', role: 'viewer', groups: ['/acme/**'] }] })
    await logIn(page, 'test-user2')
    await on.row(page, 'ours').first().waitFor()
    expect(await on.row(page, 'theirs').count()).toBe(0)
    expect(await links(page)).toEqual(['Runs', 'Approvals', 'Operations'])
    await page.goto(path.run(ours))
    await settled(page)
    expect(await lacks(on.button(main(page), /^restart/i).first())).toBe('Needs the role submitter in /acme/web.')
    expect(own(faults)).toEqual([])
  })
})
