import { describe, expect, it } from 'vitest'

import { LogStore, partLines } from './store'

const bytes = (text: string) => new TextEncoder().encode(text)
const stamp = '2026-01-02T03:04:05.000000000Z '
const at = Date.parse('2026-01-02T03:04:05Z')

/** numbered is a text of lines with their numbers. */
const numbered = (first: number, last: number) => Array.from({ length: last - first }, (_, i) => `line ${first + i}\n`).join('')

describe('LogStore', () => {
  it('joins what the index has with what the stream repeats and appends', () => {
    const text = numbered(0, partLines + 10)
    const begin = bytes(numbered(0, partLines)).length
    const log = new LogStore()
    log.addIndex({ lines: partLines + 10, bytes: text.length, offsets: [0, begin], sections: [{ step: 0, line: 0, offset: 0, time: '2026-01-02T03:04:05Z' }] })
    expect(log.length).toBe(partLines + 10)
    expect(log.streamed).toBe(begin)
    expect(log.at(3)).toBeUndefined()
    expect(log.missing(0, 3)).toEqual([{ part: 0, offset: 0, length: begin }])
    log.fill(0, bytes(numbered(0, partLines).replace(/^/gm, stamp).slice(0, -stamp.length)))
    expect(log.at(3)).toEqual({ text: 'line 3', time: at })
    expect(log.missing(0, partLines + 5)).toEqual([])

    log.add(bytes(`${numbered(partLines, partLines + 10)}new`), 0, at)
    expect(log.sections).toHaveLength(1)
    expect(log.at(partLines + 9)?.text).toBe(`line ${partLines + 9}`)
    expect(log.at(partLines + 10)?.text).toBe('new')
    log.add(bytes('er\nnext\n'), 1, at + 1)
    expect(log.at(partLines + 10)).toEqual({ text: 'newer', time: at })
    expect(log.at(partLines + 11)).toEqual({ text: 'next', time: at + 1 })
    expect(log.sections.map((s) => [s.step, s.line])).toEqual([[0, 0], [1, partLines + 11]])
    expect(log.length).toBe(partLines + 12)
    expect(log.streamed).toBe(text.length + bytes('newer\nnext\n').length)
  })

  it('begins without an index, in chunks at any place', () => {
    const log = new LogStore()
    log.addIndex({ lines: 0, bytes: 0, offsets: [], sections: [] })
    const text = bytes('é1\r\n10%\r20%\r30%\r\n\n<b>x</b>')
    for (const b of text) log.add(Uint8Array.of(b), 0, at)
    expect([0, 1, 2, 3, 4].map((i) => log.at(i)?.text)).toEqual(['é1', '30%', '', '<b>x</b>', undefined])
    expect(log.length).toBe(4)
  })

  it('keeps a bounded part of a log of any length, and forgets what was not looked at', () => {
    const log = new LogStore()
    const line = `${'x'.repeat(999)}\n`
    const part = bytes(line.repeat(partLines))
    for (let i = 0; i < 60; i++) log.add(part, 0, at)
    expect(log.length).toBe(60 * partLines)
    expect(log.at(0)).toBeUndefined()
    expect(log.at(59 * partLines)?.text).toHaveLength(999)
    expect(log.missing(0, 0)).toEqual([{ part: 0, offset: 0, length: part.length }])
    expect(log.missing(0, 60 * partLines - 1).length).toBeGreaterThan(20)
    expect(log.missing(partLines, partLines)[0]?.offset).toBe(part.length)
  })

  it('cuts long lines, and says which lines of a large part it has not', () => {
    const log = new LogStore()
    log.addIndex({ lines: 2 * partLines, bytes: 1e9, offsets: [0, 5e8], sections: [] })
    expect(log.missing(0, 0)).toEqual([{ part: 0, offset: 0, length: 4 << 20 }])
    log.fill(0, bytes(`${stamp}short\n${stamp}${'y'.repeat(50_000)}`))
    expect(log.at(0)?.text).toBe('short')
    expect(log.at(1)?.text).toMatch(/^y{10000} … \(the line is longer\)$/)
    expect(log.at(2)?.note).toBe(true)
    log.add(bytes('z'.repeat(1_000_000)), 0, at)
    log.add(bytes('z'.repeat(1_000_000)), 0, at)
    expect(log.at(partLines)?.text.length).toBeLessThan(10_100)
  })
})
