import type { Camera, Size } from './camera'
import { cardHeight, cardWidth, type Placement } from './layout'

/** The largest size of the overview, and its least size in each direction, in pixels. */
const largest: Size = { w: 200, h: 130 }
const least: Size = { w: 60, h: 36 }

/** Overview says how large the whole graph is in the overview. A long or high graph is stretched, so that its nodes can be seen. */
export interface Overview extends Size {
  /** Pixels of the overview for each pixel of the graph at zoom 1. */
  kx: number
  ky: number
}

export function overviewOf({ width, height }: Placement): Overview {
  const k = Math.min(largest.w / Math.max(1, width), largest.h / Math.max(1, height))
  const w = Math.max(least.w, Math.round(width * k))
  const h = Math.max(least.h, Math.round(height * k))
  return { w, h, kx: w / Math.max(1, width), ky: h / Math.max(1, height) }
}

/** isLarger says whether a graph is larger than the view at zoom 1: only then it has an overview. */
export function isLarger({ width, height }: Placement, { w, h }: Size): boolean {
  return width > w || height > h
}

export interface Rect {
  x: number
  y: number
  w: number
  h: number
}

/** viewIn returns the rectangle of the view in the overview, as far as it is within it. */
export function viewIn(overview: Overview, camera: Camera, { w, h }: Size): Rect {
  const within = (value: number, end: number) => Math.min(end, Math.max(0, value))
  const left = within((-camera.x / camera.k) * overview.kx, overview.w)
  const top = within((-camera.y / camera.k) * overview.ky, overview.h)
  const right = within(((w - camera.x) / camera.k) * overview.kx, overview.w)
  const bottom = within(((h - camera.y) / camera.k) * overview.ky, overview.h)
  return { x: left, y: top, w: right - left, h: bottom - top }
}

/** cameraTo returns the camera with a point of the overview in the middle of the view. */
export function cameraTo(overview: Overview, x: number, y: number, { k }: Camera, { w, h }: Size): Camera {
  return { x: w / 2 - (x / overview.kx) * k, y: h / 2 - (y / overview.ky) * k, k }
}

/** rectOf returns where a node is in the overview. */
export function rectOf(overview: Overview, placement: Placement, node: number): Rect {
  return { x: placement.x[node]! * overview.kx, y: placement.y[node]! * overview.ky, w: Math.max(1, cardWidth * overview.kx), h: Math.max(1, cardHeight * overview.ky) }
}
