import type { Locator, Page } from 'playwright-core'

/** The addresses of the pages, and the roles and names of what the tests use on them. */
export const path = {
  runs: '/runs',
  run: (id: string) => `/runs/${id}`,
  timeline: (id: string) => `/runs/${id}/timeline`,
  tasks: (id: string) => `/runs/${id}/tasks`,
  task: (id: string, task: string) => `/runs/${id}/tasks/${encodeURIComponent(task)}`,
  approvals: '/approvals',
  executors: '/operations',
  pools: '/operations/pools',
  fleets: '/operations/fleets',
  changeGroups: '/operations/changegroups',
  schedules: '/operations/schedules',
  webhooks: '/operations/webhooks',
}

export const on = {
  token: (page: Page) => page.getByLabel('Token', { exact: true }),
  logIn: (page: Page) => page.getByRole('button', { name: 'Log in', exact: true }),
  logOut: (page: Page) => page.getByRole('button', { name: /^log out/i }),
  heading: (page: Page, name: string | RegExp) => page.getByRole('heading', { name }),
  /** The state of the event stream, in the frame of all pages. */
  stream: (page: Page) => page.getByRole('banner').getByRole('status'),
  /** A row of a table, by a text in it. */
  row: (page: Page, text: string | RegExp) => page.getByRole('row').filter({ hasText: text }),
  /** The result or phase of the run, below its heading. */
  outcome: (page: Page, text: string) => page.getByRole('main').locator('header').getByText(text, { exact: true }),
  log: (page: Page) => page.getByRole('region', { name: /^log/i }),
  /** The link of a line of the log, by its number. */
  line: (page: Page, number: number) => on.log(page).getByRole('link', { name: String(number), exact: true }),
  button: (within: Page | Locator, name: string | RegExp) => within.getByRole('button', { name }),
  dialog: (page: Page) => page.getByRole('dialog'),
  alert: (page: Page) => page.getByRole('alert'),
}

/** confirmed presses a button, and the button of the same name in the dialog that it may open. */
export async function confirmed(page: Page, button: Locator, name: RegExp) {
  await button.click()
  const dialog = on.dialog(page)
  // A page without a dialog has done it already.
  if (await dialog.count()) await on.button(dialog, name).click()
}
