import { expect, test } from 'vitest'

import schema from '../api/schema.gen.ts?raw'
import { mainPages, operationsPages } from '../components/pages'
import { refusalOf, roles, type Operation, type Role, type Session } from './permissions'

const all = import.meta.glob<string>(['../**/*.{ts,tsx}', '!../**/*.test.ts', '!../**/*.gen.ts', '!./permissions.ts'], { query: '?raw', import: 'default', eager: true })
const sources = Object.entries(all)

const group = '/acme/web'
const bound = (role: Role, ...groups: string[]): Session => ({ subject: 'ana', scopes: [], bindings: [{ role, groups }] })
const scoped = (scope: string): Session => ({ subject: 'ana', scopes: [scope] })

/**
 * Who may do what the UI offers: the roles in the group of a run, schedule or fleet, the roles in all groups, and the scopes.
 * Each operation that a page calls to change something is here. A new one needs a row, and a button that knows its operation.
 */
const submit = ['submitter operator admin', 'submitter operator admin', 'write admin']
const approve = ['approver operator admin', 'approver operator admin', 'write admin']
const operateFleet = ['operator admin', 'operator admin', 'admin']
const operate = ['', 'operator admin', 'admin']
const administer = ['', 'admin', 'admin']
const actions: Partial<Record<Operation, readonly string[]>> = {
  createRun: submit, startRun: submit, stopRun: submit, restartRun: submit, putRunAnnotations: submit, putTaskAnnotations: submit,
  approveTask: approve, rejectTask: approve,
  deleteRun: ['admin', 'admin', 'admin'],
  triggerSchedule: submit, pauseSchedule: submit, resumeSchedule: submit, deleteSchedule: submit,
  pauseFleet: operateFleet, resumeFleet: operateFleet, scaleFleet: operateFleet, drainFleet: operateFleet,
  pauseFleetRollout: operateFleet, resumeFleetRollout: operateFleet, undoFleetRollout: operateFleet,
  drainExecutor: operate, removeExecutor: operate,
  putChangeGroup: ['', 'operator admin', 'write admin'],
  putPool: administer, deletePool: administer, deleteFleet: administer, putWebhook: administer, testWebhook: administer, deleteWebhook: administer,
  putRoleGrants: administer, deleteRoleGrants: administer, revokeToken: administer,
}

/** The names of the pages that the navigation offers. */
const everyRole = 'Runs Submit Approvals Operations | Pools Fleets Schedules'
const offered: Record<Role, string> = {
  viewer: 'Runs Approvals Operations | Pools Fleets Schedules', submitter: everyRole, approver: 'Runs Approvals Operations | Pools Fleets Schedules', operator: everyRole, admin: everyRole,
}
const offeredInAll: Record<Role, string> = {
  viewer: 'Runs Approvals Operations | Executors Pools Fleets Change groups Schedules Retention',
  submitter: 'Runs Submit Approvals Operations | Executors Pools Fleets Change groups Schedules Retention',
  approver: 'Runs Approvals Operations | Executors Pools Fleets Change groups Schedules Retention',
  operator: 'Runs Submit Approvals Operations | Executors Pools Fleets Change groups Schedules Retention',
  admin: 'Runs Submit Approvals Operations Audit | Executors Pools Fleets Change groups Schedules Webhooks Tokens Roles Retention',
}

/** The calls about the own session, and the check of a file while it is written: no button needs a permission for them. */
const own = new Set(['endSession', 'beginSession', 'beginProviderLogin', 'completeProviderLogin', 'validateSpec'])

/** The files that make one call other than GET in the background, where no user waits for it. */
const background = ['../login/provider.ts', '../submit/Submit.tsx']

/** operationAt returns the operation of a method and a path, as the generated types have it. */
function operationAt(method: string, path: string): string {
  const from = schema.indexOf(`    "${path}": {`)
  const found = new RegExp(`^        ${method.toLowerCase()}: operations\\["(\\w+)"\\]`, 'm').exec(schema.slice(from, schema.indexOf('\n    };', from)))
  if (from < 0 || !found) throw new Error(`the API has no ${method} ${path}`)
  return found[1]!
}

/** The operations that a page calls to change something. */
const calls = /\b(?:api|apiUntil\([^)]*\))\.(POST|PUT|PATCH|DELETE)\(\s*'([^']+)'/g
const called = new Set(sources.flatMap(([, text]) => [...text.matchAll(calls)].map(([, method, path]) => operationAt(method!, path!))).filter((o) => !own.has(o)))

test('everything is changed by useAction, whose users can stop waiting', () => {
  const others = sources.filter(([file]) => file !== '../api/action.ts' && file !== '../api/client.ts')
  const using = (name: RegExp) => others.filter(([, text]) => name.test(text)).map(([file]) => file).sort()
  expect(using(/\buseMutation\b/)).toEqual([])
  expect(using(/\bapiUntil\b/)).toEqual(background)
  for (const [file, text] of others) expect(text.match(/\bapiUntil\(/g)?.length ?? 0, file).toBe(background.includes(file) ? 1 : 0)
})

test('each operation that changes something is in the table of actions and roles', () => {
  expect([...called].sort()).toEqual(Object.keys(actions).sort())
})

test('each operation that changes something has a button that knows what it needs', () => {
  const text = sources.map(([, t]) => t).join('\n')
  for (const operation of called) {
    expect(text, operation).toMatch(new RegExp(`needs="${operation}"|[rR]efusal(Of)?\\((session, )?'${operation}'|: '${operation}'[, ]|useRefusal\\(\\)\\('${operation}'`))
  }
})

/** What users read before they have logged in, and a page that administrators alone see. */
const anyCommand = ['../pages/Login.tsx', '../operations/Tokens.tsx']

test('each command on a page knows the operation that it needs', () => {
  const plain = sources.filter(([file, text]) => !anyCommand.includes(file) && /<(pre|code)\b[^>]*>drover /.test(text)).map(([file]) => file)
  expect(plain).toEqual([])
})

for (const [operation, [inGroup, inAll, scopes]] of Object.entries(actions)) {
  test(`who may use ${operation}`, () => {
    const may = (session: Session) => refusalOf(session, operation as Operation, operation.endsWith('Fleet') || operation.includes('Rollout') ? ['/acme/web/**'] : group) === undefined
    expect(roles.filter((r) => may(bound(r, '/acme/**'))).join(' '), 'in the group').toBe(inGroup)
    expect(roles.filter((r) => may(bound(r, '/**'))).join(' '), 'in all groups').toBe(inAll)
    expect(roles.filter((r) => may(bound(r, '/other/**'))), 'in another group').toEqual([])
    expect(['read', 'write', 'exec', 'admin', 'executor'].filter((s) => may(scoped(s))).join(' ')).toBe(scopes)
  })
}

test('the pages that each role is offered', () => {
  const pages = (session: Session) => [mainPages, operationsPages].map((of) => of.filter((p) => refusalOf(session, p.needs) === undefined).map((p) => p.label).join(' ')).join(' | ')
  expect(Object.fromEntries(roles.map((r) => [r, pages(bound(r, '/acme/**'))]))).toEqual(offered)
  expect(Object.fromEntries(roles.map((r) => [r, pages(bound(r, '/**'))]))).toEqual(offeredInAll)
})
