import { describe, expect, it } from 'vitest'

import { Geometry, rowHeight } from './scroll'

const height = () => rowHeight

describe('Geometry', () => {
  it('scrolls a short log pixel by pixel', () => {
    const g = new Geometry(1000, 600, rowHeight)
    expect([g.height, g.range, g.exact]).toEqual([20_000, 19_400, true])
    expect(g.placeOf(105)).toEqual({ row: 5, px: 5 })
    expect(g.scrolled({ row: 5, px: 5 })).toBe(105)
    expect(g.placeOf(19_400)).toEqual({ row: 970, px: 0, bottom: true })
  })
  it('reaches each row of a log that is longer than browsers scroll', () => {
    const g = new Geometry(100_000_000, 600, rowHeight)
    expect(g.exact).toBe(false)
    expect(g.height).toBeLessThanOrEqual(8_000_000)
    expect(g.placeOf(0)).toEqual({ row: 0, px: 0 })
    expect(g.placeOf(g.range).row).toBe(100_000_000 - 30)
    const place = g.placeOf(g.range / 2)
    expect(g.scrolled(place)).toBeCloseTo(g.range / 2, 3)
    expect(g.walk(place, 3 * rowHeight, height)).toEqual({ row: place.row + 3, px: place.px })
  })
  it('walks over rows of any height, up to both ends', () => {
    const g = new Geometry(10, 40, rowHeight)
    const heights = [20, 60, 20, 100, 20, 20, 20, 20, 20, 20]
    const of = (row: number) => heights[row]!
    expect(g.walk({ row: 0, px: 0 }, 90, of)).toEqual({ row: 2, px: 10 })
    expect(g.walk({ row: 2, px: 10 }, -15, of)).toEqual({ row: 1, px: 55 })
    expect(g.walk({ row: 2, px: 10 }, -1000, of)).toEqual({ row: 0, px: 0 })
    expect(g.walk({ row: 2, px: 10 }, 1e6, of).row).toBe(9)
  })
  it('does not scroll what fits', () => {
    const g = new Geometry(3, 600, rowHeight)
    expect([g.range, g.placeOf(0), g.scrolled({ row: 2, px: 0 })]).toEqual([0, { row: 0, px: 0 }, 0])
    expect(new Geometry(0, 600, rowHeight).end().row).toBe(0)
  })
})
