import { statusOrder, statusSigns, type Kind } from '../../lib/status'
import { nearZoom, type Camera, type Size } from './camera'
import type { GraphStore } from './graphStore'
import { cardHeight, cardWidth, type Placement } from './layout'

/** At this zoom and above drawn nodes have their names. */
const namedZoom = 0.3

/** How many edges are drawn in one picture; of more, every second, third ... one. */
const maxEdges = 6000

export interface Theme {
  panel: string
  line: string
  edge: string
  text: string
  focus: string
  font: string
  status: Record<Kind, string>
}

/** themeOf reads the colours of the page. */
export function themeOf(element: Element): Theme {
  const style = getComputedStyle(element)
  const of = (name: string) => style.getPropertyValue(`--${name}`).trim()
  const quiet = of('quiet')
  return {
    panel: of('panel'), line: of('line'), edge: of('edge'), text: of('text'), focus: of('focus'), font: style.fontFamily,
    status: {
      success: of('success'), failed: of('failed'), running: of('running'), waiting_approval: of('waiting'), warnings: of('waiting'), stopped: of('stopped'),
      not_started: quiet, queued: quiet, waiting_changegroup: quiet, skipped: quiet, cancelled: quiet,
    },
  }
}

/** onTheme calls a reader when the colours of the page change. */
export function onTheme(reader: () => void): () => void {
  const scheme = matchMedia('(prefers-color-scheme: dark)')
  scheme.addEventListener('change', reader)
  const themes = new MutationObserver(reader)
  themes.observe(document.documentElement, { attributes: true })
  return () => {
    themes.disconnect()
    scheme.removeEventListener('change', reader)
  }
}

export interface Scene {
  store: GraphStore
  placement: Placement
  theme: Theme
  /** The node with the focus of the keyboard: its edges stand out. */
  active: number | undefined
  /** The nodes that are elements of the page: they are not drawn. */
  cards: ReadonlySet<number>
}

/** visible returns the nodes of a part of the graph. */
export function visible(placement: Placement, left: number, top: number, right: number, bottom: number): number[] {
  const out = []
  for (let node = 0; node < placement.x.length; node++) {
    const x = placement.x[node]!
    const y = placement.y[node]!
    if (x < right && x + cardWidth > left && y < bottom && y + cardHeight > top) out.push(node)
  }
  return out
}

/** How many edges or nodes are drawn in one step. */
const stepEdges = 64
const stepNodes = 32

/**
 * painting draws the edges, and the nodes as far as they are not elements of the page, in steps. The context is one that
 * nothing else uses meanwhile.
 */
export function* painting(context: CanvasRenderingContext2D, scene: Scene, camera: Camera, { w, h }: Size, ratio: number): Generator<undefined, void> {
  context.setTransform(ratio, 0, 0, ratio, 0, 0)
  context.clearRect(0, 0, w, h)
  context.setTransform(ratio * camera.k, 0, 0, ratio * camera.k, ratio * camera.x, ratio * camera.y)
  const view = { left: -camera.x / camera.k, top: -camera.y / camera.k, right: (w - camera.x) / camera.k, bottom: (h - camera.y) / camera.k }
  yield* paintEdges(context, scene, camera.k, view)
  yield* paintNodes(context, scene, camera.k, visible(scene.placement, view.left, view.top, view.right, view.bottom))
}

interface View {
  left: number
  top: number
  right: number
  bottom: number
}

function* paintEdges(context: CanvasRenderingContext2D, { store, placement, theme, active }: Scene, k: number, view: View): Generator<undefined, void> {
  const { edges } = store.graph
  const shown: number[] = []
  const marked: number[] = []
  for (let e = 0; e < edges.length; e += 2) {
    if (e % 4096 === 4094) yield
    const from = edges[e]!
    const to = edges[e + 1]!
    const a = placement.x[from]! + cardWidth
    const b = placement.x[to]!
    if (Math.max(a, b) < view.left || Math.min(a, b) > view.right) continue
    let low = Math.min(placement.y[from]!, placement.y[to]!)
    let high = Math.max(placement.y[from]!, placement.y[to]!)
    for (let i = placement.bendsAt[e / 2]!; i < placement.bendsAt[e / 2 + 1]!; i++) {
      low = Math.min(low, placement.bends[3 * i + 2]!)
      high = Math.max(high, placement.bends[3 * i + 2]!)
    }
    if (high + cardHeight < view.top || low > view.bottom) continue
    if (from === active || to === active) marked.push(e)
    else shown.push(e)
  }
  const stride = Math.ceil(shown.length / maxEdges)
  context.strokeStyle = theme.edge
  context.lineWidth = Math.max(1.25, 0.8 / k)
  // Many short paths are drawn faster than one long path.
  for (let i = 0; i < shown.length; i += stepEdges * stride) {
    context.beginPath()
    for (let j = i; j < Math.min(shown.length, i + stepEdges * stride); j += stride) trace(context, placement, edges, shown[j]!, k)
    context.stroke()
    yield
  }
  if (marked.length === 0) return
  context.strokeStyle = theme.focus
  context.lineWidth = Math.max(2, 1.5 / k)
  context.beginPath()
  for (const e of marked) trace(context, placement, edges, e, k)
  context.stroke()
}

function trace(context: CanvasRenderingContext2D, { x, y, bends, bendsAt }: Placement, edges: Int32Array, e: number, k: number) {
  let fromX = x[edges[e]!]! + cardWidth
  let fromY = y[edges[e]!]! + cardHeight / 2
  const to = (toX: number, toY: number) => {
    if (k < 0.2 || fromY === toY) {
      context.lineTo(toX, toY)
    } else {
      const middle = (fromX + toX) / 2
      context.bezierCurveTo(middle, fromY, middle, toY, toX, toY)
    }
  }
  context.moveTo(fromX, fromY)
  for (let i = bendsAt[e / 2]!; i < bendsAt[e / 2 + 1]!; i++) {
    to(bends[3 * i]!, bends[3 * i + 2]!)
    fromX = bends[3 * i + 1]!
    fromY = bends[3 * i + 2]!
    context.lineTo(fromX, fromY)
  }
  to(x[edges[e + 1]!]!, y[edges[e + 1]!]! + cardHeight / 2)
}

/** Statuses that a reader must find in an overview: they have a sign of a size that does not shrink. */
const urgent: ReadonlySet<Kind> = new Set(['failed', 'stopped', 'running', 'waiting_approval', 'warnings'])

/** Statuses that are drawn as an outline, because nothing has run. */
export const hollow: ReadonlySet<Kind> = new Set(['not_started', 'queued', 'waiting_changegroup', 'skipped', 'cancelled'])

function* paintNodes(context: CanvasRenderingContext2D, { store, placement, theme, active, cards }: Scene, k: number, nodes: readonly number[]): Generator<undefined, void> {
  const named = k >= namedZoom
  const hidden = (node: number) => k >= nearZoom && cards.has(node)
  let steps = 0
  context.lineWidth = Math.max(1, 0.7 / k)
  context.textBaseline = 'middle'
  context.textAlign = 'left'
  if (named) context.font = `600 14px ${theme.font}`
  const signed: number[] = []
  for (const node of nodes) {
    if (++steps % stepNodes === 0) yield
    if (hidden(node)) continue
    const { status } = store.state(node)
    const x = placement.x[node]!
    const y = placement.y[node]!
    const colour = theme.status[status]
    if (named) {
      context.fillStyle = theme.panel
      context.fillRect(x, y, cardWidth, cardHeight)
      context.strokeStyle = theme.line
      context.strokeRect(x, y, cardWidth, cardHeight)
      context.fillStyle = colour
      context.fillRect(x, y, 5, cardHeight)
      context.fillText(statusSigns[status], x + 16, y + cardHeight / 2)
      context.fillStyle = theme.text
      const { label } = store.graph.nodes[node]!
      context.fillText(label.length > 24 ? `${label.slice(0, 23)}…` : label, x + 38, y + cardHeight / 2)
    } else {
      context.fillStyle = hollow.has(status) ? theme.panel : colour
      context.fillRect(x, y, cardWidth, cardHeight)
      if (hollow.has(status)) {
        context.strokeStyle = k < 0.15 ? theme.edge : colour
        context.strokeRect(x, y, cardWidth, cardHeight)
      }
      if (urgent.has(status)) signed.push(node)
    }
  }
  if (!named) drawSigns(context, { store, placement, theme }, k, signed)
  if (active !== undefined && !hidden(active)) {
    const pad = Math.max(3, 3 / k)
    context.strokeStyle = theme.focus
    context.lineWidth = Math.max(2, 2 / k)
    context.strokeRect(placement.x[active]! - pad, placement.y[active]! - pad, cardWidth + 2 * pad, cardHeight + 2 * pad)
  }
}

/** drawSigns draws signs of one size on the screen, as many as do not hide each other, those of the most urgent status first. */
function drawSigns(context: CanvasRenderingContext2D, { store, placement, theme }: Pick<Scene, 'store' | 'placement' | 'theme'>, k: number, nodes: number[]) {
  const size = Math.max(40, 13 / k)
  const taken = new Set<string>()
  context.font = `700 ${size}px ${theme.font}`
  context.textAlign = 'center'
  const byUrgency = nodes.map((node) => ({ node, status: store.state(node).status })).sort((a, b) => statusOrder.indexOf(a.status) - statusOrder.indexOf(b.status))
  for (const { node, status } of byUrgency) {
    const x = placement.x[node]! + cardWidth / 2
    const y = placement.y[node]! + cardHeight / 2
    const column = Math.round(x / (1.4 * size))
    const row = Math.round(y / (1.4 * size))
    if ([-1, 0, 1].some((d) => taken.has(`${column} ${row + d}`))) continue
    taken.add(`${column} ${row}`)
    context.fillStyle = theme.panel
    context.beginPath()
    context.arc(x, y, size * 0.62, 0, 2 * Math.PI)
    context.fill()
    context.fillStyle = theme.status[status]
    context.fillText(statusSigns[status], x, y + size * 0.06)
  }
}
