import { afterAll, beforeAll, expect, it } from 'vitest'

import { browserSuite, settled } from './browser'
import { Client, Drover } from './drover'
import { logOut, on, path } from './names'
import { PathProxy } from './pathproxy'
import { fresh, Gate, specs } from './specs'

browserSuite('below a base path of a proxy', ({ open }) => {
  let proxy: PathProxy
  let drovers: Drover[] = []
  let first: Client
  let second: Client
  beforeAll(async () => {
    proxy = await PathProxy.start()
    drovers = await Promise.all(['/drover', '/other/drover'].map((base) => Drover.start({ DROVER_GATEWAY__BASE_PATH: base })))
    const clients = drovers.map(({ url, token }) => new Client({ url: proxy.add(new URL(url).pathname, url), token }))
    first = clients[0]!
    second = clients[1]!
  })
  afterAll(async () => {
    await proxy?.stop()
    await Promise.all(drovers.map((drover) => drover.stop()))
  })

  it('a user logs in, watches a run, loads its log again, and logs out', async () => {
    const { page, context, faults } = await open({ to: first, login: false })
    await page.goto(first.url)
    await on.token(page).fill(first.token)
    await on.logIn(page).click()
    await on.heading(page, 'Runs').waitFor()
    await settled(page)
    expect(page.url()).toBe(first.url + path.runs)
    expect(await context.cookies()).toMatchObject([{ httpOnly: true, sameSite: 'Strict', path: '/drover' }])

    const gate = new Gate()
    const name = fresh('below')
    const run = await first.submit({ ...specs.waits(gate), name })
    await on.row(page, name).getByText('running', { exact: true }).waitFor()
    await on.row(page, name).getByRole('link').first().click()
    await on.heading(page, /below/).waitFor()
    await settled(page)
    // The layout of the graph comes from a worker, whose file has an address too.
    const task = page.getByRole('main').getByRole('link', { name: /work/ }).first()
    await task.waitFor()
    expect(await task.getAttribute('href')).toBe(new URL(first.url).pathname + path.task(run.id, 'work'))
    await task.click()
    await on.logText(page, 'begun').waitFor()
    expect(page.url()).toBe(first.url + path.task(run.id, 'work'))
    await page.reload()
    await on.logText(page, 'begun').waitFor()
    gate.open()
    await on.logText(page, 'ended').waitFor()
    await on.outcome(page, 'success').waitFor()
    const raw = await page.getByRole('link', { name: 'Raw', exact: true }).getAttribute('href')
    expect(raw).toContain(`${first.url}/api/v1/runs/${run.id}/`)

    await logOut(page)
    await on.token(page).waitFor()
    expect(await context.cookies()).toEqual([])
    expect(faults).toEqual([])
    expect(proxy.strays).toEqual([])
  })

  it('pages have addresses of their own', async () => {
    const run = await first.submit(specs.failing)
    await first.await(run.id)
    const { page, faults } = await open({ to: first })
    for (const address of [path.timeline(run.id), path.spec(run.id), path.details(run.id), path.submit, path.executors]) {
      await page.goto(first.url + address)
      await settled(page)
      expect(page.url()).toContain(first.url + address)
    }
    await page.getByRole('banner').getByRole('link', { name: 'Runs', exact: true }).click()
    await on.heading(page, 'Runs').waitFor()
    await page.getByRole('link', { name: 'Submit a run' }).first().click()
    await page.waitForURL(first.url + path.submit)
    expect(faults).toEqual([])
    expect(proxy.strays).toEqual([])
  })

  it('two servers of one host have sessions of their own', async () => {
    const { page, context } = await open({ to: first, login: false })
    for (const client of [first, second]) {
      await page.goto(client.url + path.approvals)
      await on.token(page).fill(client.token)
      await on.logIn(page).click()
      await on.heading(page, 'Approvals').waitFor()
      expect(page.url()).toBe(client.url + path.approvals)
    }
    expect((await context.cookies()).map((cookie) => cookie.path).sort()).toEqual(['/drover', '/other/drover'])

    await page.goto(first.url)
    await on.heading(page, 'Runs').waitFor()
    await settled(page)
    await logOut(page)
    await on.token(page).waitFor()
    await page.goto(second.url)
    await on.heading(page, 'Runs').waitFor()
    await settled(page)
    expect((await context.cookies()).map((cookie) => cookie.path)).toEqual(['/other/drover'])
    expect(proxy.strays).toEqual([])
  })

  it('the gateway itself leads to its base path', async () => {
    const drover = drovers[0]!
    const { page } = await open({ to: drover, login: false })
    const { origin } = new URL(drover.url)
    for (const address of [origin, `${origin}${path.runs}`, drover.url]) {
      await page.goto(address)
      await on.token(page).waitFor()
      await page.waitForURL(drover.url + path.runs)
    }
  })
})
