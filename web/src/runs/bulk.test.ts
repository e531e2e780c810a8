import { expect, test } from 'vitest'

import { appliesTo, inBatches } from './bulk'

test('an action applies by the phase of the run', () => {
  const queued = { phase: 'queued', result: 'unknown', admission: 'manual' } as const
  expect(appliesTo('start', queued)).toBe(true)
  expect(appliesTo('start', { ...queued, admission: 'auto' })).toBe(false)
  expect(appliesTo('cancel', queued)).toBe(true)
  expect(appliesTo('delete', queued)).toBe(false)
  const running = { phase: 'running', result: 'unknown', admission: 'auto' } as const
  expect(appliesTo('stop', running)).toBe(true)
  expect(appliesTo('stop', { ...running, stop_requested: true })).toBe(false)
  expect(appliesTo('kill', { ...running, stop_requested: true })).toBe(true)
  const success = { phase: 'finished', result: 'success', admission: 'auto' } as const
  expect(appliesTo('restart', success)).toBe(true)
  expect(appliesTo('restart-failed', success)).toBe(false)
  expect(appliesTo('restart-failed', { ...success, task_counts: { failed: 1 } })).toBe(true)
  expect(appliesTo('delete', success)).toBe(true)
})

test('batches call for each item, and no more than n at a time', async () => {
  let now = 0
  let most = 0
  const done: number[] = []
  await inBatches([1, 2, 3, 4, 5], 2, async (n) => {
    most = Math.max(most, ++now)
    await Promise.resolve()
    now--
    done.push(n)
  })
  expect(done.sort()).toEqual([1, 2, 3, 4, 5])
  expect(most).toBe(2)
})
