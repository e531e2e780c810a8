import axe from 'axe-core'
import type { Page } from 'playwright-core'

/** violations returns what axe-core calls serious or critical, with the elements: by all of its rules, or those on colours. */
export async function violations(page: Page, rules: 'all' | 'colours'): Promise<string[]> {
  await page.evaluate(axe.source)
  const options: axe.RunOptions = { resultTypes: ['violations'], ...(rules === 'colours' ? { runOnly: ['color-contrast', 'link-in-text-block'] } : {}) }
  const { violations } = await page.evaluate((options) => (window as unknown as { axe: typeof axe }).axe.run(document, options), options)
  return violations
    .filter((v) => v.impact === 'serious' || v.impact === 'critical')
    .map((v) => `${v.id} (${v.impact}): ${v.help}\n${v.nodes.slice(0, 4).map((n) => `    ${n.html.slice(0, 160)}\n      ${n.failureSummary?.replaceAll('\n', ' ')}`).join('\n')}`)
}
