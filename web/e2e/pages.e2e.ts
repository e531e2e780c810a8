import { afterAll, beforeAll, expect, it } from 'vitest'

import { violations } from './axe'
import { browserSuite, settled } from './browser'
import { on, path } from './names'
import { seed, type Seeded } from './seed'

browserSuite('every page', ({ api, open }) => {
  let seeded: Seeded
  beforeAll(async () => { seeded = await seed(api) })
  afterAll(() => seeded?.close())

  // The themes differ in their colours only.
  for (const [colorScheme, rules] of [['light', 'all'], ['dark', 'colours']] as const) {
    it(`is accessible in the ${colorScheme} theme`, async () => {
      const { page, faults } = await open({ colorScheme })
      const found: string[] = []
      for (const [name, address] of Object.entries(seeded.pages)) {
        await page.goto(address)
        await settled(page)
        found.push(...(await violations(page, rules)).map((v) => `${name}: ${v}`))
      }
      const { page: login } = await open({ colorScheme, login: false })
      await login.goto(path.runs)
      await on.token(login).waitFor()
      found.push(...(await violations(login, rules)).map((v) => `login: ${v}`))
      expect(found.join('\n')).toBe('')
      expect(faults).toEqual([])
    })
  }

  it('fits a width of 360 pixels', async () => {
    const { page, faults } = await open({ viewport: { width: 360, height: 740 } })
    const wide: string[] = []
    for (const [name, address] of Object.entries(seeded.pages)) {
      await page.goto(address)
      await settled(page)
      const width = await page.evaluate(() => document.documentElement.scrollWidth)
      if (width > 360) wide.push(`${name} is ${width} pixels wide`)
    }
    expect(wide).toEqual([])
    expect(faults).toEqual([])
  })

  it('has a heading, a title, and a focus that is seen', async () => {
    const { page } = await open()
    const faults: string[] = []
    for (const [name, address] of Object.entries(seeded.pages)) {
      await page.goto(address)
      await settled(page)
      if ((await page.title()) === '') faults.push(`${name} has no title`)
      await page.keyboard.press('Tab')
      const outline = await page.evaluate(() => (document.activeElement === document.body ? 'nothing has the focus' : getComputedStyle(document.activeElement!).outlineStyle))
      if (outline === 'none' || outline === 'nothing has the focus') faults.push(`${name}: the first stop of the keyboard: ${outline}`)
    }
    expect(faults).toEqual([])
  })
})
