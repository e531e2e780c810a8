import { expect, test } from 'vitest'

import { add, capacity, ceiling, requested, valueAt, within, type Sample } from './demand'

const instance = (times: Record<string, number>) => ({
  number: 1, cause: 'requested' as const, state: 'ready' as const, requested_at: '',
  ...Object.fromEntries(Object.entries(times).map(([name, at]) => [name, new Date(at).toISOString()])),
})

test('a sample between two equal ones is left out', () => {
  let samples: readonly Sample[] = []
  for (const [at, queued] of [[1, 0], [2, 0], [3, 0], [4, 5], [5, 5], [6, 5]] as const) samples = add(samples, { at, busy: 0, queued })
  expect(samples.map((s) => s.at)).toEqual([1, 3, 4, 6])
})

test('a sample that is not newer is left out', () => {
  const samples = add([], { at: 5, busy: 1, queued: 0 })
  expect(add(samples, { at: 5, busy: 2, queued: 0 })).toBe(samples)
})

test('a gap is kept', () => {
  let samples: readonly Sample[] = []
  for (const at of [0, 5_000, 10_000, 100_000, 105_000, 110_000]) samples = add(samples, { at, busy: 1, queued: 0 })
  expect(samples.map((s) => [s.at, s.gap ?? false])).toEqual([[0, false], [10_000, false], [100_000, true], [110_000, false]])
})

test('samples are bounded', () => {
  let samples: readonly Sample[] = []
  for (let at = 0; at < 4_000; at++) samples = add(samples, { at, busy: at % 2, queued: at })
  expect(samples).toHaveLength(2_880)
  expect(samples.at(-1)?.at).toBe(3_999)
})

test('capacity begins when an instance is ready and ends when it drains', () => {
  const instances = [instance({ requested_at: 0, ready_at: 10, draining_at: 30, gone_at: 50 }), instance({ requested_at: 5, ready_at: 20 })]
  const slots = capacity(instances, 2)
  expect(slots).toEqual([{ at: 10, value: 2 }, { at: 20, value: 4 }, { at: 30, value: 2 }])
  expect([0, 10, 25, 100].map((at) => valueAt(slots, at))).toEqual([0, 2, 4, 2])
})

test('an instance that never became ready was requested until it was deleted', () => {
  expect(requested([instance({ requested_at: 10, deleting_at: 20, gone_at: 30 })], 1)).toEqual([{ at: 10, value: 1 }, { at: 20, value: 0 }])
})

test('a window begins with the value that was there', () => {
  const steps = [{ at: 10, value: 2 }, { at: 20, value: 4 }, { at: 30, value: 1 }]
  expect(within(steps, 15, 25)).toEqual([{ at: 15, value: 2 }, { at: 20, value: 4 }])
  expect(within([], 15, 25)).toEqual([{ at: 15, value: 0 }])
})

test('the axis ends at a round number', () => {
  expect([0, 4, 5, 7, 11, 32, 200, 201].map(ceiling)).toEqual([4, 4, 5, 8, 20, 40, 200, 300])
})
