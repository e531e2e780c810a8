import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

import { chromium, request, type Browser, type BrowserContext, type BrowserContextOptions, type Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject } from 'vitest'

import { Client } from './drover'
import { chromiumPath, failures, patience } from './env'
import { on } from './names'
import { openGates, ownGates } from './specs'

export interface Suite {
  browser: () => Browser
  /** The client of the shared server. */
  api: Client
  /** open returns a page of a browser that is logged in to the server, or to another one. */
  open: (options?: BrowserContextOptions & { to?: Client; login?: boolean }) => Promise<Watched>
}

/** A Watched page records what a page must never do. */
export interface Watched {
  page: Page
  context: BrowserContext
  /** Violations of the Content-Security-Policy, errors of scripts, dialogs, and requests to other servers or outside the base path. */
  faults: string[]
}

/** browserSuite declares tests in Chromium. They are skipped where there is none. */
export function browserSuite(name: string, define: (suite: Suite) => void) {
  const reason = inject('skip')
  describe.skipIf(reason !== '')(reason ? `${name} (${reason})` : name, () => {
    let browser: Browser
    const contexts: BrowserContext[] = []
    const api = new Client(inject('server'))
    beforeAll(async () => {
      // Debian's Chromium has no sandbox for root and in containers; the pages are our own.
      browser = await chromium.launch({ executablePath: chromiumPath, args: ['--no-sandbox', '--disable-dev-shm-usage'] })
    })
    afterAll(async () => browser?.close())
    beforeEach(ownGates)
    afterEach(async ({ task }) => {
      openGates()
      for (const [i, context] of contexts.splice(0).entries()) {
        for (const page of task.result?.state === 'fail' ? context.pages() : []) await picture(page, `${task.name} ${i}`)
        await context.close()
      }
    })
    define({
      api,
      browser: () => browser,
      open: async ({ to = api, login = true, ...options } = {}) => {
        const context = await browser.newContext({ baseURL: to.url, viewport: { width: 1280, height: 800 }, reducedMotion: 'reduce', ...options })
        contexts.push(context)
        context.setDefaultTimeout(patience)
        if (login) await context.addCookies(await session(to))
        return watch(context, to.url)
      },
    })
  })
}

type Cookies = Awaited<ReturnType<BrowserContext['cookies']>>
const sessions = new Map<string, Promise<Cookies>>()

/** session returns the cookies of a session. There is one for each server and token, because logins are limited. */
function session(client: Client): Promise<Cookies> {
  const key = `${client.url} ${client.token}`
  let cookies = sessions.get(key)
  if (!cookies) {
    cookies = logIn(client)
    sessions.set(key, cookies)
  }
  return cookies
}

async function logIn(client: Client): Promise<Cookies> {
  const calls = await request.newContext()
  try {
    const response = await calls.post(`${client.url}/api/v1/session`, { data: { token: client.token } })
    if (!response.ok()) throw new Error(`log in: ${response.status()} ${await response.text()}`)
    return (await calls.storageState()).cookies
  } finally {
    await calls.dispose()
  }
}

async function watch(context: BrowserContext, server: string): Promise<Watched> {
  const faults: string[] = []
  const { origin, pathname: base } = new URL(server)
  await context.exposeBinding('reportFault', (_, text: string) => { faults.push(text) })
  await context.addInitScript(() => {
    const report = (text: string) => { void (window as unknown as { reportFault: (text: string) => Promise<void> }).reportFault(text) }
    document.addEventListener('securitypolicyviolation', (e) => report(`policy: ${e.violatedDirective} ${e.blockedURI} ${e.sample} ${e.sourceFile}:${e.lineNumber}`))
    // Payloads of the tests set it.
    Object.defineProperty(window, 'injected', { set: (value) => report(`a payload ran: ${String(value)}`) })
  })
  const page = await context.newPage()
  page.on('pageerror', (error) => faults.push(`script: ${error.message}`))
  page.on('dialog', (dialog) => {
    faults.push(`dialog: ${dialog.message()}`)
    void dialog.dismiss()
  })
  page.on('console', (message) => {
    if (/content security policy|refused to/i.test(message.text())) faults.push(`console: ${message.text()}`)
  })
  page.on('request', (request) => {
    const url = new URL(request.url())
    const own = url.origin === origin && (url.pathname === base || url.pathname.startsWith(base === '/' ? base : `${base}/`))
    if (!own && url.protocol !== 'data:' && url.protocol !== 'blob:') faults.push(`request: ${request.url()}`)
  })
  return { page, context, faults }
}

/** picture writes what a page shows. */
async function picture(page: Page, name: string) {
  mkdirSync(failures, { recursive: true })
  const file = join(failures, name.replaceAll(/\W+/g, '-'))
  try {
    await page.screenshot({ path: `${file}.png`, timeout: 5_000 })
    writeFileSync(`${file}.html`, await page.content())
    console.log(`${page.url()} is in ${file}.png`)
  } catch (error) {
    console.log(`no picture: ${String(error)}`)
  }
}

/** settled waits until the page is live and shows no loading text. */
export async function settled(page: Page) {
  await page.getByRole('main').waitFor()
  await on.stream(page).filter({ hasText: 'live' }).waitFor()
  await expect.poll(() => page.getByText(/^(loading|laying out|checking)/i).count()).toBe(0)
}
