import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import type { BrowserContext, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'

import { violations } from './axe'
import { browserSuite, settled } from './browser'
import { Drover } from './drover'
import { FaultyProxy } from './faultyproxy'
import { on, path } from './names'
import { specs } from './specs'

const editor = (page: Page) => page.getByRole('textbox', { name: 'Run file' })
const noAnswer = (page: Page) => page.getByRole('status').getByText('The gateway has not answered yet.')
const ended = (page: Page) => page.getByText('Your session has ended.')

async function logIn(page: Page, token: string) {
  await on.token(page).fill(token)
  await on.logIn(page).click()
}

browserSuite('a session that ends', ({ open }) => {
  let drover: Drover
  beforeAll(async () => { drover = await Drover.start() })
  afterAll(async () => drover?.stop())

  let tokens = 0
  /** newToken returns a token with its name. */
  const newToken = async () => {
    const name = `web-${tokens++}`
    const { token } = await drover.call<{ token: string }>('POST', '/api/v1/tokens', { name, scopes: ['admin'] })
    return { name, token }
  }
  const enter = async (address: string, token: string) => {
    const watched = await open({ to: drover, login: false })
    await watched.page.goto(address)
    await logIn(watched.page, token)
    await settled(watched.page)
    return watched
  }
  const loggedOut = (context: BrowserContext) => context.request.delete(`${drover.url}/api/v1/session`, { data: {} })

  it('with a token that was revoked asks for a login, and shows the same page with the same filters', async () => {
    const { name, token } = await newToken()
    const address = `${path.runs}?group=/web/session&q=word`
    const { page, faults } = await enter(address, token)
    const filters = new URL(page.url()).search
    await drover.call('POST', `/api/v1/tokens/${name}/revoke`, {})
    // The page reads again because of the events of a run.
    await drover.await((await drover.submit({ ...specs.failing, group: '/web/session' })).id)
    await ended(page).waitFor()
    await logIn(page, 'no-token-of-this-server')
    await on.alert(page).waitFor()
    await logIn(page, drover.token)
    await on.heading(page, 'Runs').waitFor()
    await settled(page)
    expect(new URL(page.url()).search).toBe(filters)
    expect(await ended(page).count()).toBe(0)
    expect(faults).toEqual([])
  })

  it('with a token that was revoked does so on the pages of operations, where nothing happens', async () => {
    const { name, token } = await newToken()
    const { page, faults } = await enter(path.executors, token)
    await drover.call('POST', `/api/v1/tokens/${name}/revoke`, {})
    await ended(page).waitFor()
    await logIn(page, drover.token)
    await settled(page)
    expect(new URL(page.url()).pathname).toBe(path.executors)
    expect(faults).toEqual([])
  })

  it('does not lose what was written in the editor, for its writer', async () => {
    const { page, context, faults } = await enter(path.submit, drover.token)
    await editor(page).click()
    await page.keyboard.press('Control+Home')
    await page.keyboard.type('# not submitted yet\n')
    await page.getByRole('heading', { name: 'Valid' }).waitFor()
    await loggedOut(context)
    await page.keyboard.type('# and more\n')
    await ended(page).waitFor()
    await logIn(page, drover.token)
    await editor(page).getByText('# not submitted yet').waitFor()
    await editor(page).getByText('# and more').waitFor()

    // Another user of the same tab does not see it.
    const { token } = await newToken()
    await loggedOut(context)
    await page.keyboard.press('Control+End')
    await editor(page).click()
    await page.keyboard.type('# the end\n')
    await ended(page).waitFor()
    await logIn(page, token)
    await on.heading(page, 'Submit a run').waitFor()
    await page.getByRole('heading', { name: 'Valid' }).waitFor()
    expect(await editor(page).getByText('# not submitted yet').count()).toBe(0)
    expect(faults).toEqual([])
  })

  it('and a login without an answer: the user learns it, and can stop waiting', async () => {
    const proxy = await FaultyProxy.start(drover)
    let answer = () => {}
    try {
      const { page, faults } = await open({ to: proxy, login: false })
      await page.goto(path.runs)
      await on.token(page).waitFor()
      proxy.late = { paths: /\/session$/, until: new Promise<void>((done) => { answer = done }) }
      await on.token(page).fill(drover.token)
      await on.logIn(page).click()
      await noAnswer(page).waitFor()
      expect(await violations(page, 'all')).toEqual([])
      await on.button(page, 'Stop waiting').click()
      await on.alert(page).getByText('You did not wait for the answer.').waitFor()
      expect(await noAnswer(page).count()).toBe(0)
      answer()
      proxy.late = undefined
      await on.logIn(page).click()
      await on.heading(page, 'Runs').waitFor()
      expect(faults).toEqual([])
    } finally {
      answer()
      await proxy.stop()
    }
  })

  it('by an action of the user asks for a login too', async () => {
    const { page, context, faults } = await enter(path.submit, drover.token)
    await page.getByRole('heading', { name: 'Valid' }).waitFor()
    await loggedOut(context)
    await on.button(page, 'Create only').click()
    await ended(page).waitFor()
    await logIn(page, drover.token)
    await on.heading(page, 'Submit a run').waitFor()
    expect(faults).toEqual([])
  })
})

/** A Provider answers the discovery of an OpenID Connect provider, once it is started. */
class Provider {
  url = ''
  private server?: Server
  /** reserve finds a free port, where nothing listens until start. */
  async reserve() {
    await this.start()
    await this.stop()
  }
  async start() {
    this.server = createServer((request, response) => {
      response.setHeader('content-type', 'application/json')
      if (request.url !== '/.well-known/openid-configuration') return response.end('{"keys":[]}')
      return response.end(JSON.stringify({
        issuer: this.url, authorization_endpoint: `${this.url}/authorize`, token_endpoint: `${this.url}/token`, jwks_uri: `${this.url}/keys`,
        response_types_supported: ['code'], subject_types_supported: ['public'], id_token_signing_alg_values_supported: ['RS256'], code_challenge_methods_supported: ['S256'],
      }))
    })
    this.server.listen(this.url ? Number(new URL(this.url).port) : 0, '127.0.0.1')
    await once(this.server, 'listening')
    this.url = `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`
  }
  async stop() {
    this.server?.closeAllConnections()
    this.server?.close()
    if (this.server?.listening) await once(this.server, 'close')
  }
}

browserSuite('a provider that is down', ({ open }) => {
  const provider = new Provider()
  let dir = ''
  let drover: Drover
  beforeAll(async () => {
    await provider.reserve()
    dir = mkdtempSync(join(tmpdir(), 'drover-web-'))
    const secret = join(dir, 'secret')
    writeFileSync(secret, crypto.randomUUID(), { mode: 0o600 })
    drover = await Drover.start({
      DROVER_GATEWAY__OIDC__ISSUER: provider.url, DROVER_GATEWAY__OIDC__CLIENT_ID: 'drover', DROVER_GATEWAY__OIDC__CLIENT_SECRET_FILE: secret,
      DROVER_GATEWAY__OIDC__BINDINGS: '*=read', DROVER_GATEWAY__OIDC__NAME: 'Example',
    })
  })
  afterAll(async () => {
    await drover?.stop()
    await provider.stop()
    if (dir) rmSync(dir, { recursive: true, force: true })
  })

  it('is named on the login page, which offers it again when it is back', async () => {
    const { page, context, faults } = await open({ to: drover, login: false })
    await page.goto(`${path.runs}?group=/web/provider`)
    await on.button(page, 'Log in with Example').click()
    await on.alert(page).filter({ hasText: 'Example cannot be used' }).waitFor()
    await page.getByText('The page asks Example again by itself.').waitFor()

    // The login with a token works meanwhile.
    const other = await context.newPage()
    await other.goto(path.approvals)
    await logIn(other, drover.token)
    await on.heading(other, 'Approvals').waitFor()
    await context.clearCookies()

    await provider.start()
    await page.getByText('Example can be used again.').waitFor()
    expect(await on.alert(page).count()).toBe(0)
    await on.button(page, 'Log in with Example').click()
    await page.waitForURL((url) => url.pathname === '/authorize')
    expect(new URL(page.url()).searchParams.get('client_id')).toBe('drover')

    // The answer to its login is of no use, and the gateway is silent about it.
    const proxy = await FaultyProxy.start(drover)
    let answer = () => {}
    try {
      const returned = await open({ to: proxy, login: false })
      proxy.late = { paths: /\/session\/provider/, until: new Promise<void>((done) => { answer = done }) }
      await returned.page.goto('/login/callback?state=unknown&code=unknown')
      await noAnswer(returned.page).waitFor()
      expect(new URL(returned.page.url()).search, 'the code leaves the history').toBe('')
      await on.button(returned.page, 'Stop waiting').click()
      await on.alert(returned.page).getByText('You did not wait for the answer.').waitFor()
      await on.button(returned.page, 'Log in with Example').click()
      await noAnswer(returned.page).waitFor()
      await on.button(returned.page, 'Stop waiting').click()
      await expect.poll(() => on.alert(returned.page).getByText('You did not wait for the answer.').count()).toBe(2)
      answer()
      proxy.late = undefined
      expect(returned.faults).toEqual([])
    } finally {
      answer()
      await proxy.stop()
    }
    // The page of the provider is on another server.
    expect(faults.filter((f) => !f.startsWith(`request: ${provider.url}/`))).toEqual([])
  })
})
