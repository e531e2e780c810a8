import { expect, it } from 'vitest'

import { grow } from './cards'

it('grow adds some cards in each frame until all that are wanted are shown', () => {
  const wanted = Array.from({ length: 50 }, (_, i) => i)
  const counts: number[] = []
  let shown: readonly number[] = [7, 99]
  for (let next = grow(shown, wanted, 20); next !== shown; next = grow(shown, wanted, 20)) {
    shown = next
    counts.push(shown.length)
  }
  expect(counts).toEqual([21, 41, 50])
  expect(shown).toEqual(wanted)
  expect(grow(shown, [], 20)).toEqual([])
})
