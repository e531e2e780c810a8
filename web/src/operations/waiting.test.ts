import { expect, test } from 'vitest'

import { waitingChanges } from './waiting'

const event = (run: string, status: 'waiting_approval' | 'queued', task = 'release') => ({ type: 'task' as const, run, task, status })
const release = (run: string) => ({ run, task: 'release' })

test('any event of a run or task may change a list that has not arrived', () => {
  expect(waitingChanges().changes(event('a', 'queued'))).toBe(true)
  expect(waitingChanges().changes({ type: 'run', run: 'a' })).toBe(true)
})

test('only events of waiting tasks and their runs change the list', () => {
  const waiting = waitingChanges()
  waiting.arrived([release('a')])
  expect(waiting.changes(event('a', 'queued'))).toBe(true)
  expect(waiting.changes({ type: 'run', run: 'a' })).toBe(true)
  expect(waiting.changes(event('a', 'queued', 'build'))).toBe(false)
  expect(waiting.changes({ type: 'stage', run: 'a', task: 'release' })).toBe(false)
  expect(waiting.changes({ type: 'run', run: 'b' })).toBe(false)
  expect(waiting.changes(event('b', 'queued'))).toBe(false)
  expect(waiting.changes(event('b', 'waiting_approval'))).toBe(true)
})

test('a task that begins to wait counts until a page has come that was read afterwards', () => {
  const waiting = waitingChanges()
  waiting.arrived([])
  waiting.changes(event('a', 'waiting_approval'))
  expect(waiting.changes(event('a', 'queued'))).toBe(true) // approved before the list was read
  waiting.arrived([]) // a page that was read before a waited
  expect(waiting.changes(event('a', 'queued'))).toBe(true)
  waiting.arrived([release('a')])
  expect(waiting.changes({ type: 'run', run: 'a' })).toBe(true)
  waiting.arrived([])
  expect(waiting.changes(event('a', 'queued'))).toBe(false)
})
