import { describe, expect, it } from 'vitest'

import { cardWidth, type Placement } from './layout'
import { cameraTo, isLarger, overviewOf, rectOf, viewIn } from './overview'

const placement = (width: number, height: number): Placement => ({
  x: Float32Array.of(0, width - cardWidth), y: Float32Array.of(0, height / 2), width, height, bendsAt: new Int32Array(1), bends: new Float32Array(0),
})
const size = { w: 1000, h: 500 }

describe('the overview', () => {
  it('keeps the shape of a graph, and stretches a very long one', () => {
    expect(overviewOf(placement(4000, 2000))).toEqual({ w: 200, h: 100, kx: 0.05, ky: 0.05 })
    const chain = overviewOf(placement(60_000, 76))
    expect(chain.w).toBe(200)
    expect(chain.h).toBeGreaterThan(30)
  })
  it('is for graphs that are larger than the view', () => {
    expect(isLarger(placement(900, 400), size)).toBe(false)
    expect(isLarger(placement(900, 501), size)).toBe(true)
    expect(isLarger(placement(1001, 76), size)).toBe(true)
  })
  it('has the rectangle of the view, within its borders', () => {
    const overview = overviewOf(placement(4000, 2000))
    expect(viewIn(overview, { x: -1000, y: -500, k: 1 }, size)).toEqual({ x: 50, y: 25, w: 50, h: 25 })
    expect(viewIn(overview, { x: 500, y: 250, k: 0.1 }, size)).toEqual({ x: 0, y: 0, w: 200, h: 100 })
  })
  it('moves the view to a point, at the same zoom', () => {
    const overview = overviewOf(placement(4000, 2000))
    const camera = cameraTo(overview, 100, 50, { x: 7, y: 7, k: 0.5 }, size)
    expect(camera).toEqual({ x: -500, y: -250, k: 0.5 })
    const { x, y, w, h } = viewIn(overview, camera, size)
    expect([x + w / 2, y + h / 2]).toEqual([100, 50])
  })
  it('has each node, at least as large as a pixel', () => {
    const graph = placement(100_000, 50_000)
    expect(rectOf(overviewOf(graph), graph, 1)).toMatchObject({ y: 50, w: 1, h: 1 })
  })
})
