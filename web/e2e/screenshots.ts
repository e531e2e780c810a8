import { mkdirSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

import { afterAll, beforeAll, it } from 'vitest'

import { browserSuite, settled, type Watched } from './browser'
import { on, path } from './names'
import { seed, type Seeded } from './seed'

const folder = resolve(process.env.DROVER_SCREENSHOTS ?? '')

/** take writes a picture as WebP, which is a fifth of the size of a PNG. */
async function take({ page, context }: Watched, name: string) {
  const session = await context.newCDPSession(page)
  const { data } = await session.send('Page.captureScreenshot', { format: 'webp', quality: 80 })
  writeFileSync(join(folder, `${name}.webp`), Buffer.from(data, 'base64'))
  await session.detach()
}

/** The pages whose narrow pictures are in the documentation, in the light theme. */
const narrow = ['runs', 'run-graph', 'task-log', 'fleet']

browserSuite('pictures', ({ api, open }) => {
  let seeded: Seeded
  beforeAll(async () => {
    mkdirSync(folder, { recursive: true })
    seeded = await seed(api)
  })
  afterAll(() => seeded?.close())

  for (const [colorScheme, kind, width, height] of [['light', '', 1280, 800], ['dark', '', 1280, 800], ['light', '-narrow', 360, 740]] as const) {
    it(`of the pages, ${colorScheme}, ${width} pixels wide`, async () => {
      const options = { colorScheme, viewport: { width, height }, timezoneId: 'UTC', locale: 'en-US' }
      if (kind === '') {
        const login = await open({ ...options, login: false })
        await login.page.goto(path.runs)
        await on.token(login.page).waitFor()
        await take(login, `login-${colorScheme}`)
      }
      const watched = await open(options)
      for (const [name, address] of Object.entries(seeded.pages)) {
        if (kind !== '' && !narrow.includes(name)) continue
        await watched.page.goto(address)
        await settled(watched.page)
        // The graph is moved to its place in the next frames.
        await watched.page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))))
        await take(watched, `${name}-${colorScheme}${kind}`)
      }
    })
  }
})
