import { describe, expect, it } from 'vitest'

import { Rows } from './rows'

const sections = [{ step: -1, line: 0, time: 0 }, { step: 0, line: 2, time: 0 }, { step: 1, line: 5, time: 0 }]

describe('Rows', () => {
  it('has a head before each section', () => {
    const rows = new Rows(sections, 7, new Set())
    expect(rows.length).toBe(10)
    expect(Array.from({ length: 10 }, (_, i) => rows.at(i)).map((r) => (r.kind === 'head' ? `s${r.section}` : r.line))).toEqual(['s0', 0, 1, 's1', 2, 3, 4, 's2', 5, 6])
    for (let line = 0; line < 7; line++) expect(rows.at(rows.rowOf(line))).toEqual({ kind: 'line', line })
  })
  it('leaves out the lines of sections that are folded', () => {
    const rows = new Rows(sections, 7, new Set([2]))
    expect(rows.length).toBe(7)
    expect(rows.rowOf(3)).toBe(3)
    expect(rows.at(3)).toEqual({ kind: 'head', section: 1 })
    expect(rows.at(4)).toEqual({ kind: 'head', section: 2 })
    expect(rows.linesOf(1)).toBe(3)
    expect(rows.linesOf(2)).toBe(2)
  })
  it('has lines only without sections', () => {
    const rows = new Rows([], 3, new Set())
    expect([rows.length, rows.rowOf(2), rows.sectionOf(2)]).toEqual([3, 2, -1])
    expect(new Rows([], 0, new Set()).length).toBe(0)
  })
})
