import type { RunGraph } from './graph'
import { cardHeight, cardWidth, type Placement } from './layout'

/** Camera says which part of the graph is shown: the point (x, y) of the screen is the graph's origin, and k the zoom. */
export interface Camera {
  x: number
  y: number
  k: number
}

/** Size is that of the view, in pixels. */
export interface Size {
  w: number
  h: number
}

/** At this zoom and above the nodes are elements of the page; below, they are too small to read and only drawn. */
export const nearZoom = 0.55

/** The zoom at which a node is shown that was too small to read. */
const readableZoom = 0.85

/** The room around a node that is shown, and around the whole graph. */
const margin = 60

/** whole returns the camera that shows the whole graph: a small one at the top, where it is in view on a page that scrolls. */
export function whole({ width, height }: Placement, { w, h }: Size): Camera {
  const k = Math.min(1, (w - margin) / Math.max(1, width), (h - margin) / Math.max(1, height))
  return { x: (w - width * k) / 2, y: Math.min(margin, (h - height * k) / 2), k: Math.max(0.004, k) }
}

/** showing returns the camera that shows a node so that it can be read, moved as little as needed or with the node in the middle. */
export function showing(placement: Placement, node: number, camera: Camera, { w, h }: Size, middle = false): Camera {
  const far = camera.k < nearZoom
  const k = far ? readableZoom : camera.k
  const x = placement.x[node]! * k
  const y = placement.y[node]! * k
  const into = (offset: number, begin: number, size: number, room: number) =>
    far || middle ? (room - size) / 2 - begin : Math.min(Math.max(offset, margin - begin), Math.max(margin - begin, room - margin - size - begin))
  return { x: into(camera.x, x, cardWidth * k, w), y: into(camera.y, y, cardHeight * k, h), k }
}

export interface Laid {
  graph: RunGraph
  placement: Placement
}

/** follow returns the camera that leaves a node of both graphs, near the middle of the view, where it is. */
export function follow(before: Laid, after: Laid, camera: Camera, { w, h }: Size): Camera {
  const middle = { x: (w / 2 - camera.x) / camera.k - cardWidth / 2, y: (h / 2 - camera.y) / camera.k - cardHeight / 2 }
  let least = Infinity
  let moved = { x: 0, y: 0 }
  before.graph.nodes.forEach((node, i) => {
    const next = after.graph.index.get(node.id)
    const x = before.placement.x[i]!
    const y = before.placement.y[i]!
    const distance = Math.hypot(x - middle.x, y - middle.y)
    if (next === undefined || distance >= least) return
    least = distance
    moved = { x: after.placement.x[next]! - x, y: after.placement.y[next]! - y }
  })
  return { x: camera.x - moved.x * camera.k, y: camera.y - moved.y * camera.k, k: camera.k }
}
