import { describe, expect, it } from 'vitest'

import { finish, inSlices, slice } from './slices'

function* count(to: number, seen: number[]): Generator<undefined, string> {
  for (let i = 0; i < to; i++) {
    seen.push(i)
    yield
  }
  return 'done'
}

describe('slices', () => {
  it('end after their time, with a step at least', () => {
    let now = 0
    const seen: number[] = []
    const work = count(5, seen)
    const clock = () => now++
    expect(slice(work, clock, 2)).toBe(false)
    expect(seen).toEqual([0, 1])
    expect(slice(work, clock, 0)).toBe(false)
    expect(seen).toEqual([0, 1, 2])
    expect(slice(work, clock, 100)).toBe(true)
    expect(seen).toEqual([0, 1, 2, 3, 4])
  })
  it('return the result of all the work', async () => {
    const seen: number[] = []
    expect(finish(count(3, seen))).toBe('done')
    expect(await inSlices(count(3, seen))).toBe('done')
    expect(seen).toEqual([0, 1, 2, 0, 1, 2])
  })
  it('let other work of the page run between them', async () => {
    let others = 0
    const other = setInterval(() => { others++ }, 0)
    function* busy(): Generator<undefined, void> {
      while (others < 2) yield
    }
    await inSlices(busy())
    clearInterval(other)
    expect(others).toBeGreaterThanOrEqual(2)
  })
  it('end with an abort', async () => {
    const abort = new AbortController()
    function* forever(): Generator<undefined, string> {
      for (let i = 0; ; i++) {
        if (i === 3) abort.abort()
        yield
      }
    }
    expect(await inSlices(forever(), abort.signal)).toBeUndefined()
  })
})
