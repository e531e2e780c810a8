import { expect, test } from 'vitest'

import { diffOf, fold } from './diff'

const text = (n: number, change?: Record<number, string>) => Array.from({ length: n }, (_, i) => change?.[i + 1] ?? `line ${i + 1}`).join('\n') + '\n'

test('changes have the numbers of both texts, and equal lines are folded', () => {
  const lines = fold(diffOf(text(30), text(30, { 15: 'changed' }))!)
  expect(lines.map((l) => l.kind).join('|')).toBe('fold| | | |-|+| | | |fold')
  expect(lines[4]).toEqual({ kind: '-', text: 'line 15', before: 15 })
  expect(lines[5]).toEqual({ kind: '+', text: 'changed', after: 15 })
  expect(lines[0]).toMatchObject({ lines: { length: 11 } })
})

test('equal texts are one fold, and a single line is never folded', () => {
  expect(fold(diffOf(text(9), text(9))!)).toHaveLength(1)
  expect(fold(diffOf(text(5), text(5, { 1: 'x' }))!).map((l) => l.kind).join('|')).toBe('-|+| | | | ')
})
