import { expect, test } from 'vitest'

import { heldOf, takenOf, waitingOf } from './changegroup'

const tasks = (n: number, units: number) => Array.from({ length: n }, (_, i) => ({ run: 'r', task: `t${i}`, units }))

test('the totals of a change group are those of the gateway, since the lists of tasks end', () => {
  const group = { max_running: 5000, running: ['a'], queued: ['b', 'c'], holding_tasks: tasks(1000, 2), waiting_tasks: tasks(1000, 1) }
  expect([heldOf({ ...group, held: 4801, waiting: 1302 }), waitingOf({ ...group, held: 4801, waiting: 1302 })]).toEqual([4801, 1302])
  expect([heldOf(group), waitingOf(group)]).toEqual([2001, 1002])
  expect([heldOf({ max_running: 1, running: [], queued: [] }), waitingOf({ max_running: 1, running: [], queued: [] })]).toEqual([0, 0])
})

test('a task takes no more slots than there are', () => {
  expect(heldOf({ max_running: 3, running: [], queued: [], holding_tasks: tasks(1, 5) })).toBe(3)
  expect([takenOf(5, 3), takenOf(2, 3), takenOf(5, 0)]).toEqual([3, 2, 5])
})
