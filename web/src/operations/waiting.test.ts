import { expect, test } from 'vitest'

import { waitingChanges } from './waiting'

const wanted = (run: string) => ({ type: 'approval_wanted' as const, run })
const task = (run: string) => ({ type: 'task' as const, run })

test('any event may change a list that has not arrived', () => {
  expect(waitingChanges().changes(task('a'))).toBe(true)
})

test('only events of runs with a waiting task change the list', () => {
  const waiting = waitingChanges()
  waiting.arrived(['a'])
  expect(waiting.changes(task('a'))).toBe(true)
  expect(waiting.changes(task('b'))).toBe(false)
  expect(waiting.changes(wanted('b'))).toBe(true)
})

test('a run that begins to wait counts until a page has come that was read afterwards', () => {
  const waiting = waitingChanges()
  waiting.arrived([])
  waiting.changes(wanted('a'))
  expect(waiting.changes(task('a'))).toBe(true) // approved before the list was read
  waiting.arrived([]) // a page that was read before a waited
  expect(waiting.changes(task('a'))).toBe(true)
  waiting.arrived(['a'])
  expect(waiting.changes(task('a'))).toBe(true)
  waiting.arrived([])
  expect(waiting.changes(task('a'))).toBe(false)
})
