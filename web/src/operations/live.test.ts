import { QueryClient, QueryObserver } from '@tanstack/react-query'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'

import type { Event } from '../api/client'
import { rereader, slotChanges } from './live'

beforeEach(() => { vi.useFakeTimers() })
afterEach(() => { vi.useRealTimers() })

test('a reading is not interrupted by events, and follows the last one', async () => {
  const queries = new QueryClient()
  let begun = 0
  let aborted = 0
  const stop = new QueryObserver(queries, {
    queryKey: ['list'],
    queryFn: async ({ signal }) => {
      signal.addEventListener('abort', () => { aborted++ })
      begun++
      await new Promise((done) => setTimeout(done, 3_500))
      return begun
    },
  }).subscribe(() => {})
  await vi.advanceTimersByTimeAsync(4_000)
  expect(queries.getQueryData(['list'])).toBe(1)
  const again = rereader(queries, () => ['list'])
  for (let i = 0; i < 10; i++) {
    again.later()
    await vi.advanceTimersByTimeAsync(400)
  }
  expect(begun).toBe(2) // and it is being read
  expect(aborted).toBe(0)
  await vi.advanceTimersByTimeAsync(10_000)
  expect(begun).toBe(3)
  expect(queries.getQueryData(['list'])).toBe(3)
  again.close()
  stop()
})

test.each([
  ['a task that begins to wait', { type: 'task', status: 'waiting_changegroup' }, true],
  ['a task that got its slots', { type: 'task', status: 'queued' }, true],
  ['a task that has ended', { type: 'task', status: 'success' }, true],
  ['a run', { type: 'run' }, true],
  ['a task that an executor took', { type: 'task', status: 'running' }, false],
  ['a stage', { type: 'stage', status: 'running' }, false],
] as const)('slots change with the event of %s: %s', (_, event, changes) => {
  expect(slotChanges({ number: 1, time: '', run: 'r', group: '/a', ...event } as Event)).toBe(changes)
})
