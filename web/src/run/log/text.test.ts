import { describe, expect, it } from 'vitest'

import { mark, pieces } from './ansi'
import { failingLine } from './failing'
import { formatRange, parseRange } from './range'

describe('pieces', () => {
  it('divides a line by its colours', () => {
    expect(pieces('plain <b>')).toEqual([{ text: 'plain <b>', look: '' }])
    expect(pieces('a\u001b[1;31mred\u001b[0m b')).toEqual([{ text: 'a', look: '' }, { text: 'red', look: 'ansi-bold ansi-red' }, { text: ' b', look: '' }])
    expect(pieces('\u001b[38;5;196mx\u001b[48;2;1;2;3my')).toEqual([
      { text: 'x', look: '', color: '255, 0, 0' },
      { text: 'y', look: '', color: '255, 0, 0', background: '1, 2, 3' },
    ])
    expect(pieces('\u001b[38;5;244mg')).toEqual([{ text: 'g', look: '', color: '128, 128, 128' }])
  })
  it('leaves out all other sequences, whole or not', () => {
    for (const [line, want] of [
      ['\u001b]8;;https://x.example\u0007link\u001b]8;;\u0007', 'link'],
      ['\u001b]0;title\u001b\\a', 'a'],
      ['\u001b[2K\u001b[1Gdone', 'done'],
      ['\u001bMa\u001b', 'a'],
      ['a\u001b]never ends', 'a'],
      ['\u001b[31', ''],
      ['\u001bP<script>\u001b\\ok', 'ok'],
    ] as const) {
      expect(pieces(line).map((p) => p.text).join('').replace(/^\[?31$/, ''), JSON.stringify(line)).toBe(want)
    }
  })
  it('uses class names of its own only', () => {
    for (const p of pieces('\u001b[99;31;"x"mtext\u001b[38;5;999mmore\u001b[38;2;300;0;0mend')) expect(p.look).toMatch(/^(ansi-[a-z-]+ ?)*$/)
  })
})

describe('mark', () => {
  const texts = (line: string, text: string) => mark(pieces(line), text).map((p) => (p.found ? `[${p.text}]` : p.text)).join('')
  it('finds a text over the borders of colours', () => {
    expect(texts('an Error, an error', 'ERROR')).toBe('an [Error], an [error]')
    expect(texts('a\u001b[31mer\u001b[0mror!', 'error')).toBe('a[er][ror]!')
    expect(texts('aaaa', 'aa')).toBe('[aa][aa]')
    expect(texts('nothing', 'x')).toBe('nothing')
    expect(texts('İx ERR', 'err')).toBe('İx [ERR]')
    expect(mark(pieces('abc'), '')).toEqual(pieces('abc'))
  })
})

describe('failingLine', () => {
  it('is the last line that says so', () => {
    expect(failingLine(['start', 'main.go:3: undefined: x', 'see above', ''])).toBe(1)
    expect(failingLine(['3 passed, 0 failed', 'exit'])).toBe(1)
    expect(failingLine(['one', 'two', '', ' '])).toBe(1)
    expect(failingLine(['ValueError: x', 'cleaning up'])).toBe(0)
    expect(failingLine(['--- FAIL: TestX (0.1s)', '  x_test.go:3: got 1', 'FAIL', 'bye'])).toBe(0)
    expect(failingLine(['begin', '\u001b[31mFAILED\u001b[0m', 'bye'])).toBe(1)
    expect(failingLine([])).toBe(0)
  })
})

describe('range', () => {
  it('reads and writes fragments', () => {
    expect(parseRange('L12')).toEqual({ first: 12, last: 12 })
    expect(parseRange('#L20-L12')).toEqual({ first: 12, last: 20 })
    for (const bad of ['', 'L0', 'L', 'L1-', 'x', 'L1e3', 'L1-L2-L3']) expect(parseRange(bad)).toBeUndefined()
    expect(formatRange({ first: 3, last: 3 })).toBe('L3')
    expect(formatRange({ first: 3, last: 5 })).toBe('L3-L5')
  })
})
