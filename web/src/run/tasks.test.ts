import { expect, test } from 'vitest'

import type { Task } from '../api/client'
import { rowsOf, slotsOf, taskFiltersOf } from './tasks'

const task = (number: number, t: Partial<Task> = {}): Task => ({
  number, status: 'not_started', reason: '', pool: 'linux', executor: '', attempt: 0, timed_out: false, depends: [], outputs: {}, annotations: {}, steps: [], ...t,
})
const tasks = {
  b: task(1, { status: 'success', started_at: '2026-01-01T00:00:00Z', ended_at: '2026-01-01T00:00:09Z' }),
  a10: task(2, { status: 'failed', reason: 'exit code 3', started_at: '2026-01-01T00:00:01Z', ended_at: '2026-01-01T00:00:02Z' }),
  a9: task(3, { status: 'running', executor: 'host-7', started_at: '2026-01-01T00:00:03Z' }),
}
const names = (filters: Record<string, unknown>) => rowsOf(tasks, taskFiltersOf(filters), Date.parse('2026-01-01T00:00:08Z')).map((r) => r.name)

test('tasks are found by what the table shows of them', () => {
  expect(names({ search: 'EXIT' })).toEqual(['a10'])
  expect(names({ search: 'host-7' })).toEqual(['a9'])
  expect(names({ status: ['failed', 'running', 'nonsense'] })).toEqual(['a10', 'a9'])
})

test('tasks are sorted', () => {
  expect(names({})).toEqual(['b', 'a10', 'a9'])
  expect(names({ sort: 'name' })).toEqual(['a9', 'a10', 'b'])
  expect(names({ sort: 'status' })).toEqual(['a10', 'a9', 'b'])
  expect(names({ sort: '-duration' })).toEqual(['b', 'a9', 'a10'])
  expect(names({ sort: 'nonsense' })).toEqual(['b', 'a10', 'a9'])
})

test('a task holds its slots from when it is queued until it has ended', () => {
  const changegroups = [{ name: 'g', units: 1 }]
  expect((['waiting_changegroup', 'queued', 'running', 'failed'] as const).map((status) => slotsOf({ status, changegroups }) !== undefined)).toEqual([false, true, true, false])
  expect(slotsOf({ status: 'running' })).toBeUndefined()
})
