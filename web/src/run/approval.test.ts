import { expect, test } from 'vitest'

import type { Session } from '../lib/permissions'
import { decidersOf, decisionRefusal, toDecide } from './approval'

const ana: Session = { subject: 'ana', scopes: [], bindings: [{ role: 'approver', groups: ['/acme/**'] }] }
const group = '/acme/web'

test('who may decide', () => {
  expect(decidersOf({ approved_by: [] }, group)).toBe('anyone with the role approver in /acme/web, or with the scope write')
  expect(decidersOf({ approved_by: [], from: ['ann', 'bob'] }, group)).toBe('ann or bob')
})

test('why the user may not decide', () => {
  const reasons = (session: Session, approval?: Parameters<typeof decisionRefusal>[3]) => (['approveTask', 'rejectTask'] as const).map((d) => decisionRefusal(session, d, group, approval))
  expect(reasons(ana)).toEqual([undefined, undefined])
  expect(reasons(ana, { approved_by: ['bob'] })).toEqual([undefined, undefined])
  expect(reasons(ana, { approved_by: [], from: ['ana', 'bob'] })).toEqual([undefined, undefined])
  expect(reasons(ana, { approved_by: [], from: ['ann', 'bob'] })).toEqual(['Only ann or bob can decide.', 'Only ann or bob can decide.'])
  expect(reasons(ana, { approved_by: ['ana'] }), 'who approved may still reject').toEqual(['You have approved it already.', undefined])
  const submitter: Session = { ...ana, bindings: [{ role: 'submitter', groups: ['/**'] }] }
  expect(reasons(submitter, { approved_by: [], from: ['ana'] })).toEqual(Array(2).fill('Needs the role approver in /acme/web.'))
})

test('how many tasks wait for the user', () => {
  const tasks = [
    { group, approved_by: [] }, { group, approved_by: ['bob'] }, { group, approved_by: ['ana'] },
    { group, approved_by: [], from: ['bob'] }, { group, approved_by: [], from: ['bob', 'ana'] }, { group: '/other', approved_by: [] },
  ]
  expect(toDecide(tasks, ana)).toBe(3)
  expect(toDecide(tasks, { ...ana, bindings: [{ role: 'viewer', groups: ['/**'] }] })).toBe(0)
  expect(toDecide([], ana)).toBe(0)
})
