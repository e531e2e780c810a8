import { mkdirSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

import type { Page } from 'playwright-core'
import { expect, it } from 'vitest'

import type { components } from '../src/api/schema.gen'
import { browserSuite, settled } from './browser'
import { until, type Client } from './drover'
import { on } from './names'
import { seed } from './seed'

const folder = resolve(process.env.DROVER_SCREENSHOTS ?? '')

/** The most bytes of a picture. */
const most = 60_000

/** The pages of docs/web-pictures.md, without the fleet's. */
const shown = ['runs', 'groups', 'run-graph', 'run-failed', 'run-timeline', 'task-log', 'run-results', 'approvals', 'submit', 'executors', 'schedules']

/** take writes a picture as WebP, which is a third of the size of a PNG. */
async function take(page: Page, name: string) {
  // The graph is moved to its place in the next frames.
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))))
  const session = await page.context().newCDPSession(page)
  const picture = Buffer.from((await session.send('Page.captureScreenshot', { format: 'webp', quality: 80 })).data, 'base64')
  await session.detach()
  writeFileSync(join(folder, `${name}.webp`), picture)
  expect.soft(picture.length, `bytes of ${name}`).toBeLessThan(most)
}

/** takeFleet takes a picture that ends below the rollout: with all instances and events it would be too long. */
async function takeFleet(page: Page, name: string) {
  const rollout = page.getByRole('region', { name: 'Rollout' })
  await rollout.getByText('progressing').waitFor()
  await rollout.getByText(/[1-9]\d* of them ready/).waitFor()
  const { y, height } = (await rollout.boundingBox())!
  const footer = (await page.getByRole('contentinfo').boundingBox())!
  await page.setViewportSize({ width: 1280, height: Math.ceil(y + height + 16 + footer.height) })
  await take(page, name)
}

/** reported waits until all executors have reported their tasks. */
const reported = (api: Client) => until('the reports of the executors', async () => {
  const { executors } = await api.get<{ executors: components['schemas']['Executor'][] }>('/api/v1/executors')
  return { done: executors.every((e) => e.slots_used === e.tasks) || undefined, state: executors.map((e) => `${e.id}: ${e.slots_used} slots, ${e.tasks} tasks`).join('; ') }
})

browserSuite('pictures', ({ api, open }) => {
  it('of the pages', async () => {
    mkdirSync(folder, { recursive: true })
    const themes = await Promise.all((['light', 'dark'] as const).map(async (colorScheme) => {
      const options = { colorScheme, timezoneId: 'UTC', locale: 'en-US' }
      return { colorScheme, page: (await open(options)).page, fleet: (await open(options)).page }
    }))
    // A fleet's page knows the demand since it was opened.
    const { pages } = await seed(api, {
      pause: 45_000,
      begins: async (address) => {
        for (const { fleet } of themes) {
          await fleet.goto(address)
          await settled(fleet)
        }
      },
    })
    await reported(api)
    for (const { colorScheme, page, fleet } of themes) {
      await takeFleet(fleet, `fleet-${colorScheme}`)
      for (const name of shown) {
        await page.goto(pages[name]!)
        await settled(page)
        expect.soft(await page.getByRole('main').evaluate((main) => main.scrollHeight - main.clientHeight), `pixels of ${name} that are cut off`).toBeLessThanOrEqual(0)
        if (name === 'run-failed') await on.button(page, 'What to do next').click()
        await take(page, `${name}-${colorScheme}`)
      }
    }
  }, 600_000)
})
