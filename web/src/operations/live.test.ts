import { QueryClient, QueryObserver } from '@tanstack/react-query'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'

import { rereader } from './live'

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
