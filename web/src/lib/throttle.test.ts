import { afterEach, beforeEach, expect, test, vi } from 'vitest'

import { throttle } from './throttle'

beforeEach(() => { vi.useFakeTimers() })
afterEach(() => { vi.useRealTimers() })

test('the first call is made at once, and the last is not lost', () => {
  const call = vi.fn()
  const next = throttle(call, 1000)
  next()
  next()
  next()
  expect(call).toHaveBeenCalledTimes(1)
  vi.advanceTimersByTime(1000)
  expect(call).toHaveBeenCalledTimes(2)
  vi.advanceTimersByTime(5000)
  expect(call).toHaveBeenCalledTimes(2)
  next()
  expect(call).toHaveBeenCalledTimes(3)
})
