import type { Locator, Page } from 'playwright-core'

/** The addresses of the pages, and the roles and names of what the tests use on them. */
export const path = {
  runs: '/runs',
  run: (id: string) => `/runs/${id}`,
  timeline: (id: string) => `/runs/${id}/timeline`,
  tasks: (id: string) => `/runs/${id}/tasks`,
  task: (id: string, task: string) => `/runs/${id}/tasks/${encodeURIComponent(task)}`,
  results: (id: string) => `/runs/${id}/results`,
  spec: (id: string) => `/runs/${id}/spec`,
  details: (id: string) => `/runs/${id}/details`,
  groups: '/runs/groups',
  submit: '/submit',
  audit: '/audit',
  approvals: '/approvals',
  operations: '/operations',
  executors: '/operations/executors',
  pools: '/operations/pools',
  fleets: '/operations/fleets',
  changeGroups: '/operations/changegroups',
  schedules: '/operations/schedules',
  webhooks: '/operations/webhooks',
  tokens: '/operations/tokens',
  roles: '/operations/roles',
  retention: '/operations/retention',
}

export const on = {
  token: (page: Page) => page.getByLabel('Token', { exact: true }),
  logIn: (page: Page) => page.getByRole('button', { name: 'Log in', exact: true }),
  heading: (page: Page, name: string | RegExp) => page.getByRole('heading', { name, level: 1 }),
  /** The state of the event stream, in the frame of all pages. */
  stream: (page: Page) => page.getByRole('banner').getByRole('status'),
  /** A row of a table, by a text in it. */
  row: (page: Page, text: string | RegExp) => page.getByRole('row').filter({ hasText: text }),
  /** The result or phase of the run, below its heading. */
  outcome: (page: Page, text: string) => page.getByRole('main').locator('header').getByText(text, { exact: true }),
  log: (page: Page) => page.getByRole('region', { name: /^log/i }),
  /** A line of the log, by a text in it. */
  logText: (page: Page, text: string) => on.log(page).getByText(text).filter({ visible: true }).first(),
  /** The link of a line of the log, by its number. */
  line: (page: Page, number: number) => on.log(page).getByRole('link', { name: new RegExp(`^(line )?${number}$`, 'i') }),
  button: (within: Page | Locator, name: string | RegExp) => within.getByRole('button', { name }),
  dialog: (page: Page) => page.getByRole('dialog'),
  alert: (page: Page | Locator) => page.getByRole('alert'),
}

/** confirmed presses a button, and the button of the dialog that it opens: the names of such buttons end in an ellipsis. */
export async function confirmed(page: Page, button: Locator, name: RegExp) {
  const asks = (await button.textContent())?.includes('…')
  await button.click()
  if (asks) await on.button(on.dialog(page), name).click()
}

export async function logOut(page: Page) {
  const menu = on.button(page.getByRole('banner'), 'Settings')
  if (await menu.isVisible()) await menu.click()
  await page.getByRole('button', { name: 'Log out', exact: true }).click()
}

/** approve gives the approval of the page of a task. */
export const approve = (page: Page) => confirmed(page, on.button(page.getByRole('main'), /^approve/i).first(), /^approve/i)

/** restartFromFailed makes a new run on the page of one that failed. */
export async function restartFromFailed(page: Page) {
  const direct = on.button(page.getByRole('main'), /^restart from failed/i)
  if (await direct.isVisible()) return confirmed(page, direct, /^restart/i)
  await on.button(page.getByRole('main'), /^restart/i).first().click()
  await on.dialog(page).getByRole('radio', { name: /failed/i }).check()
  await on.button(on.dialog(page), /^restart/i).click()
}

/** lacks returns what a button says that the user lacks, and null if the user may press it. */
export const lacks = (button: Locator) => button.evaluate((e) => (e.getAttribute('aria-disabled') === 'true' ? (document.getElementById(e.getAttribute('aria-describedby') ?? '')?.textContent ?? 'it has no description') : null))
