import { expect, test } from 'vitest'

import file from '../../../internal/roles/testdata/cases.json'
import { bindingsAllow, needs, pathsOf, refusalOf, rightsOf, roleAllows, roles, submitPaths, type Binding, type Operation, type Permission, type Session } from './permissions'

const permissions: readonly Permission[] = ['view', 'submit', 'approve', 'operate', 'administer']

const bound = (role: Binding['role'], ...groups: string[]): Session => ({ subject: 'ana', scopes: [], bindings: [{ role, groups }] })
const scoped = (...scopes: string[]): Session => ({ subject: 'ana', scopes })

test('roles have the permissions of the gateway', () => {
  expect(Object.fromEntries(roles.map((r) => [r, permissions.filter((p) => roleAllows(r, p))]))).toEqual(file.roles)
  expect(Object.fromEntries(permissions.map((p) => [p, needs(p)]))).toEqual(file.needs)
})

for (const c of file.cases) {
  test(`bindings: ${c.name}`, () => {
    const bindings = c.bindings as Binding[]
    expect(pathsOf(bindings, c.permission as Permission).sort()).toEqual([...c.paths].sort())
    for (const [group, want] of Object.entries(c.groups)) expect(bindingsAllow(bindings, c.permission as Permission, group), group).toBe(want)
  })
}

test('an operation on a run needs the permission in its group', () => {
  expect(refusalOf(bound('submitter', '/acme/**'), 'stopRun', '/acme/web')).toBeUndefined()
  expect(refusalOf(bound('approver', '/acme/**'), 'stopRun', '/acme/web')).toBe('Needs the role submitter in /acme/web.')
  expect(refusalOf(bound('submitter', '/other/**'), 'triggerSchedule', '/acme/web')).toBe('Needs the role submitter in /acme/web.')
  expect(refusalOf(bound('admin', '/acme/**'), 'deleteRun', '/acme/web')).toBeUndefined()
})

test('an operation on what belongs to no group needs the permission in all', () => {
  expect(refusalOf(bound('admin', '/acme/**'), 'drainExecutor')).toBe('Needs the role operator in all groups, /**.')
  expect(refusalOf(bound('admin', '/acme/**'), 'drainExecutor', '/acme')).toBe('Needs the role operator in all groups, /**.')
  expect(refusalOf(bound('operator', '/**'), 'drainExecutor')).toBeUndefined()
  expect(refusalOf(bound('operator', '/**'), 'listTokens')).toBe('Needs the role admin in all groups, /**.')
})

test('an operation on a fleet needs the permission in all groups of the fleet', () => {
  expect(refusalOf(bound('operator', '/acme/**'), 'pauseFleet', ['/acme/web/**', '/acme/api/**'])).toBeUndefined()
  expect(refusalOf(bound('operator', '/acme/**'), 'pauseFleet', ['/acme/web/**', '/third/**'])).toBe('Needs the role operator in /acme/web/** and /third/**.')
  expect(refusalOf(bound('viewer', '/acme/**'), 'pauseFleet', ['/acme/**'])).toBe('Needs the role operator in /acme/**.')
  for (const none of [undefined, [], ['/**']]) expect(refusalOf(bound('operator', '/acme/**'), 'pauseFleet', none)).toBe('Needs the role operator in all groups, /**.')
  expect(refusalOf(bound('operator', '/**'), 'pauseFleet', [])).toBeUndefined()
  expect(refusalOf(bound('admin', '/acme/**'), 'deleteFleet', ['/acme/**'])).toBe('Needs the role admin in all groups, /**.')
  expect(refusalOf(bound('viewer', '/acme/**'), 'listFleets')).toBeUndefined()
})

test('a list needs the permission in any group, and a new run in its own', () => {
  expect(refusalOf(bound('viewer', '/acme/**'), 'listRuns')).toBeUndefined()
  expect(refusalOf(bound('viewer', '/acme/**'), 'createRun')).toBe('Needs the role submitter in a group.')
  expect(refusalOf(bound('submitter', '/acme/**'), 'createRun')).toBeUndefined()
  expect(refusalOf(bound('submitter', '/acme/**'), 'createRun', '/acmes/web')).toBe('Needs the role submitter in /acmes/web.')
})

test('everybody may ask who they are', () => {
  expect(refusalOf(bound('viewer', '/acme/**'), 'getSession')).toBeUndefined()
})

test('scopes hold in all groups', () => {
  const allowed = (session: Session, ...operations: Operation[]) => operations.filter((o) => refusalOf(session, o, '/acme/web') === undefined)
  const all: Operation[] = ['listRuns', 'stopRun', 'putChangeGroup', 'execInTask', 'drainExecutor', 'listTokens']
  expect(allowed(scoped('read'), ...all)).toEqual(['listRuns'])
  expect(allowed(scoped('write'), ...all)).toEqual(['listRuns', 'stopRun', 'putChangeGroup'])
  expect(allowed(scoped('read', 'exec'), ...all)).toEqual(['listRuns', 'execInTask'])
  expect(allowed(scoped('admin'), ...all)).toEqual(all)
  expect(allowed(scoped('executor'), ...all)).toEqual([])
  expect(refusalOf(scoped('read'), 'stopRun', '/acme/web')).toBe('Needs the scope write.')
})

test('where runs may be submitted', () => {
  expect(submitPaths({ subject: 'ana', scopes: [], bindings: [{ role: 'viewer', groups: ['/**'] }, { role: 'operator', groups: ['/b/**', '/a/**'] }] })).toEqual(['/a', '/b'])
  expect(submitPaths(scoped('write'))).toEqual([''])
  expect(submitPaths(scoped('read'))).toEqual([])
})

test('what the user has', () => {
  expect(rightsOf(bound('viewer', '/a/**', '/b/**'))).toBe('the role viewer in /a/** and /b/**')
  expect(rightsOf(scoped('read', 'exec'))).toBe('the scopes read, exec')
  expect(rightsOf(scoped())).toBe('no scope')
})
