import { expect, test } from 'vitest'

import type { Run } from '../api/client'
import { appliesTo, fitting, inBatches } from './bulk'

test('an action applies by the phase of the run', () => {
  const queued = { phase: 'queued', result: 'unknown', admission: 'manual' } as const
  expect(appliesTo('start', queued)).toBe(true)
  expect(appliesTo('start', { ...queued, admission: 'auto' })).toBe(false)
  expect(appliesTo('stop', queued)).toBe(true)
  expect(appliesTo('kill', queued)).toBe(false)
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

test('an action is for the runs of the groups in which the user may do it', () => {
  const run = (id: string, group: string, phase: Run['phase'] = 'running') => ({ id, group, phase }) as Run
  const runs = [run('1', '/b'), run('2', '/a'), run('3', '/b', 'finished'), run('4', '/c')]
  const fits = fitting('stop', runs, (operation, group) => (group === '/a' ? undefined : `${operation} in ${group}`))
  expect(fits.may.map((r) => r.id)).toEqual(['2'])
  expect(fits.mayNot.map((r) => r.id)).toEqual(['1', '4'])
  expect(fits.refusal).toBe('stopRun in /b')
  expect(fitting('delete', runs, () => undefined)).toEqual({ may: [runs[2]], mayNot: [], refusal: undefined })
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
