import { select } from 'd3-selection'
import { zoom, zoomIdentity, type ZoomBehavior } from 'd3-zoom'
import { memo, startTransition, useCallback, useEffect, useImperativeHandle, useLayoutEffect, useMemo, useRef, useState, useSyncExternalStore, type KeyboardEvent, type Ref } from 'react'

import type { Status } from '../api/client'
import { statusLabels, statusOrder, statusSigns } from '../lib/status'
import { between, duration, useNow } from '../lib/time'
import { draw, nearZoom, themeOf, visible, type Camera, type Scene } from './drawing'
import { neighbour, type GraphNode, type NodeState } from './graph'
import type { GraphStore } from './graphStore'
import { cardHeight, cardWidth, type Placement } from './layout'

/** What the buttons around a graph do with it. */
export interface GraphHandle {
  zoomBy: (factor: number) => void
  fit: () => void
  /** show moves a node into view and gives it the focus. */
  show: (node: number) => void
}

interface Props {
  store: GraphStore
  placement: Placement
  /** Where the page of a task is. */
  hrefOf: (task: string) => string
  onOpen: (node: GraphNode) => void
  /** onClose is called with a node on whose card Escape was pressed. */
  onClose: (node: GraphNode) => void
  ref?: Ref<GraphHandle>
}

const margin = 60
const closest = 1.5

/** How far the view may leave the graph, in pixels at zoom 1. */
const edge = 80

/** How far around the view the cards exist already, in pixels; the part changes in steps of this size too. */
const around = 240

/**
 * GraphView shows a graph of any size. All edges, and the nodes that are too small to read, are drawn on a canvas; only
 * nodes in view that can be read are elements. Moving and zooming draws the canvas and changes one transform.
 */
export function GraphView({ store, placement, hrefOf, onOpen, onClose, ref }: Props) {
  const frame = useRef<HTMLDivElement>(null)
  const canvas = useRef<HTMLCanvasElement>(null)
  const world = useRef<HTMLDivElement>(null)
  const { graph } = store
  const [cards, setCards] = useState<readonly number[]>([])
  const [activeID, setActive] = useState<string>()
  const [request, setRequest] = useState(0)
  const focusNext = useRef(false)
  const camera = useRef<Camera>({ x: 0, y: 0, k: 1 })
  const behaviour = useRef<ZoomBehavior<HTMLDivElement, unknown>>(undefined)
  const scene = useRef<Scene>(undefined)
  const paint = useRef<() => void>(() => undefined)
  const first = useMemo(() => urgentOf(store), [store])
  const current = activeID === undefined ? undefined : graph.index.get(activeID)
  // One node is reached with Tab, and the others with the arrow keys.
  const entry = current ?? first

  const move = useCallback((to: Camera) => {
    const element = frame.current
    const zooming = behaviour.current
    if (!element || !zooming) return
    const extent: [[number, number], [number, number]] = [[0, 0], [element.clientWidth, element.clientHeight]]
    zooming.transform(select(element), zooming.constrain()(zoomIdentity.translate(to.x, to.y).scale(to.k), extent, zooming.translateExtent()))
  }, [])

  /** reveal moves the camera as little as needed, so that a node can be read. */
  const reveal = useCallback((node: number, middle = false) => {
    const element = frame.current
    if (!element) return
    const { clientWidth: w, clientHeight: h } = element
    const k = camera.current.k < nearZoom ? 0.85 : camera.current.k
    const at = camera.current.k < nearZoom || middle
    const x = placement.x[node]! * k
    const y = placement.y[node]! * k
    const into = (offset: number, begin: number, size: number, room: number) =>
      at ? (room - size) / 2 - begin : Math.min(Math.max(offset, margin - begin), Math.max(margin - begin, room - margin - size - begin))
    move({ x: into(camera.current.x, x, cardWidth * k, w), y: into(camera.current.y, y, cardHeight * k, h), k })
  }, [placement, move])

  const show = useCallback((node: number) => {
    focusNext.current = true
    setActive(graph.nodes[node]!.id)
    setRequest((n) => n + 1)
    reveal(node)
  }, [reveal, graph])

  const fit = useCallback(() => {
    const element = frame.current
    if (element) move(whole(placement, element.clientWidth, element.clientHeight))
  }, [placement, move])

  useImperativeHandle(ref, () => ({
    zoomBy: (factor) => { if (frame.current) behaviour.current?.scaleBy(select(frame.current), factor) },
    fit,
    show,
  }), [fit, show])

  // The canvas, and what moves it.
  useLayoutEffect(() => {
    const element = frame.current!
    const context = canvas.current!.getContext('2d')!
    let size = { w: 0, h: 0, ratio: 1 }
    let pending = 0
    let region = ''
    const before = scene.current
    scene.current = { store, placement, theme: themeOf(element), active: undefined, cards: new Set() }

    const redraw = () => {
      pending = 0
      const { x, y, k } = camera.current
      world.current!.style.transform = `translate(${x}px, ${y}px) scale(${k})`
      draw(context, scene.current!, camera.current, size.w, size.h, size.ratio)
      element.dataset.drawn = ''
      const cell = (value: number) => Math.floor(value / around) * around
      const near = k >= nearZoom
      world.current!.dataset.zoom = near ? 'near' : 'far'
      const [left, top, right, bottom] = near ? [cell(-x / k) - around, cell(-y / k) - around, cell((size.w - x) / k) + 2 * around, cell((size.h - y) / k) + 2 * around] : [0, 0, 0, 0]
      const next = `${left} ${top} ${right} ${bottom}`
      if (next === region) return
      region = next
      startTransition(() => setCards(near ? visible(placement, left, top, right, bottom) : []))
    }
    paint.current = () => { pending ||= requestAnimationFrame(redraw) }

    const zooming = zoom<HTMLDivElement, unknown>()
      .filter((event: MouseEvent) => (event.type !== 'wheel' || event.ctrlKey || event.metaKey) && !event.button)
      .wheelDelta((event: WheelEvent) => -event.deltaY * (event.deltaMode === 1 ? 0.05 : 0.002) * (event.ctrlKey || event.metaKey ? 4 : 1))
      .on('zoom', ({ transform }: { transform: Camera }) => {
        camera.current = { x: transform.x, y: transform.y, k: transform.k }
        paint.current()
      })
    behaviour.current = zooming
    const area = select(element).call(zooming).on('dblclick.zoom', null)
    const scroll = (event: WheelEvent) => {
      if (event.ctrlKey || event.metaKey) return
      const unit = event.deltaMode === 1 ? 20 : 1
      const [dx, dy] = event.shiftKey && !event.deltaX ? [event.deltaY, 0] : [event.deltaX, event.deltaY]
      const before = camera.current
      zooming.translateBy(area, (-dx * unit) / before.k, (-dy * unit) / before.k)
      // At its end the page scrolls on.
      if (camera.current.x !== before.x || camera.current.y !== before.y) event.preventDefault()
    }
    element.addEventListener('wheel', scroll, { passive: false })

    let placed = false
    const sizes = new ResizeObserver(() => {
      size = { w: element.clientWidth, h: element.clientHeight, ratio: Math.min(2, window.devicePixelRatio || 1) }
      canvas.current!.width = size.w * size.ratio
      canvas.current!.height = size.h * size.ratio
      const all = whole(placement, size.w, size.h)
      zooming.scaleExtent([Math.min(all.k, 0.2), closest])
      zooming.translateExtent([[-edge, -edge], [placement.width + edge, placement.height + edge]])
      if (!placed) {
        placed = true
        if (before) move(follow(before, scene.current!, camera.current, size.w, size.h))
        else if (all.k >= 0.6) move(all)
        else {
          camera.current = { x: 0, y: 0, k: 0.8 }
          reveal(urgentOf(store), true)
        }
      }
      redraw()
    })
    sizes.observe(element)

    const restyle = () => {
      scene.current!.theme = themeOf(element)
      paint.current()
    }
    const scheme = matchMedia('(prefers-color-scheme: dark)')
    scheme.addEventListener('change', restyle)
    const themes = new MutationObserver(restyle)
    themes.observe(document.documentElement, { attributes: true })
    const stop = store.subscribeAll(() => paint.current())
    return () => {
      stop()
      sizes.disconnect()
      themes.disconnect()
      scheme.removeEventListener('change', restyle)
      element.removeEventListener('wheel', scroll)
      area.on('.zoom', null)
      cancelAnimationFrame(pending)
    }
  }, [store, placement, move, reveal])

  useEffect(() => {
    if (scene.current) scene.current.active = current
    paint.current()
    if (!focusNext.current || current === undefined) return
    focusNext.current = false
    frame.current?.querySelector<HTMLElement>(`[data-node="${current}"]`)?.focus({ preventScroll: true })
  }, [current, store, request])

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return
    const direction = directions[event.key]
    if (direction) {
      event.preventDefault()
      const next = neighbour(graph, entry, direction, placement)
      if (next !== undefined) show(next)
    } else if (event.key === 'Home' || event.key === 'End') {
      event.preventDefault()
      show(event.key === 'Home' ? 0 : graph.nodes.length - 1)
    } else if (event.key === '0') {
      fit()
    } else if (event.key === '+' || event.key === '-') {
      if (frame.current) behaviour.current?.scaleBy(select(frame.current), event.key === '+' ? 1.3 : 1 / 1.3)
    } else if (event.key === 'Escape' && current !== undefined) {
      onClose(graph.nodes[current]!)
    }
  }
  const shown = useMemo(() => (cards.includes(entry) ? cards : [...cards, entry]), [cards, entry])
  useLayoutEffect(() => {
    if (scene.current) scene.current.cards = new Set(cards)
    paint.current()
  }, [cards, store])
  return (
    <div className="graph-frame" ref={frame} role="group" aria-label="Graph of the tasks. Arrow keys move along the edges, Enter opens a task."
      onClick={(e) => {
        // A node that is only drawn comes closer.
        if (camera.current.k >= nearZoom) return
        const box = e.currentTarget.getBoundingClientRect()
        const { x, y, k } = camera.current
        const [left, top] = [(e.clientX - box.left - x) / k, (e.clientY - box.top - y) / k]
        const [node] = visible(placement, left, top, left, top)
        if (node !== undefined) show(node)
      }}
      onKeyDown={onKeyDown} onFocus={(e) => { if (e.target.matches('.card:focus-visible')) reveal(entry) }} onScroll={(e) => e.currentTarget.scrollTo(0, 0)}>
      <canvas ref={canvas} />
      <div className="graph-world" ref={world}>
        {shown.map((node) => node < graph.nodes.length && (
          <Card key={graph.nodes[node]!.id} store={store} node={node} x={placement.x[node]!} y={placement.y[node]!} tab={node === entry}
            hrefOf={hrefOf} onOpen={onOpen} onFocus={setActive} />
        ))}
      </div>
    </div>
  )
}

const directions: Record<string, 'left' | 'right' | 'up' | 'down'> = { ArrowLeft: 'left', ArrowRight: 'right', ArrowUp: 'up', ArrowDown: 'down' }

/** whole returns the camera that shows the whole graph. */
function whole({ width, height }: Placement, w: number, h: number): Camera {
  const k = Math.min(1, (w - margin) / Math.max(1, width), (h - margin) / Math.max(1, height))
  return { x: (w - width * k) / 2, y: (h - height * k) / 2, k: Math.max(0.004, k) }
}

/** follow returns the camera that leaves a node of both graphs, near the middle of the view, where it is. */
function follow(before: Scene, after: Scene, camera: Camera, w: number, h: number): Camera {
  const middle = { x: (w / 2 - camera.x) / camera.k - cardWidth / 2, y: (h / 2 - camera.y) / camera.k - cardHeight / 2 }
  let least = Infinity
  let moved = { x: 0, y: 0 }
  before.store.graph.nodes.forEach((node, i) => {
    const next = after.store.graph.index.get(node.id)
    const x = before.placement.x[i]!
    const y = before.placement.y[i]!
    const distance = Math.hypot(x - middle.x, y - middle.y)
    if (next === undefined || distance >= least) return
    least = distance
    moved = { x: after.placement.x[next]! - x, y: after.placement.y[next]! - y }
  })
  return { x: camera.x - moved.x * camera.k, y: camera.y - moved.y * camera.k, k: camera.k }
}

/** urgentOf returns the node that a reader looks for first. */
function urgentOf(store: GraphStore): number {
  let best = 0
  let least = urgent.length
  store.graph.nodes.forEach((_, i) => {
    const rank = urgent.indexOf(store.state(i).status)
    if (rank < 0 || rank >= least) return
    best = i
    least = rank
  })
  return best
}

const urgent: readonly Status[] = ['failed', 'stopped', 'running', 'waiting_approval', 'queued']

interface CardProps {
  store: GraphStore
  node: number
  x: number
  y: number
  tab: boolean
  hrefOf: (task: string) => string
  onOpen: (node: GraphNode) => void
  onFocus: (id: string) => void
}

/** Card is one node. Only its own tasks draw it again. */
const Card = memo(function Card({ store, node: number, x, y, tab, hrefOf, onOpen, onFocus }: CardProps) {
  const node = store.graph.nodes[number]!
  const state = useSyncExternalStore(useCallback((reader: () => void) => store.subscribe(number, reader), [store, number]), () => store.state(number))
  const single = node.kind === 'task'
  return (
    <a className="card" data-node={number} data-kind={state.status} tabIndex={tab ? 0 : -1} draggable={false} style={{ left: x, top: y, width: cardWidth, height: cardHeight }}
      href={single ? hrefOf(node.tasks[0]!) : '#'} role={single ? undefined : 'button'} aria-haspopup={node.kind === 'expansion' ? 'dialog' : undefined}
      title={state.reason ? `${node.label}\n${state.reason}` : node.label}
      onFocus={() => onFocus(node.id)}
      onKeyDown={(e) => {
        if (e.key !== ' ' || single) return
        e.preventDefault()
        onOpen(node)
      }}
      onClick={(e) => {
        if (single && (e.ctrlKey || e.metaKey || e.shiftKey)) return // the browser opens it elsewhere
        e.preventDefault()
        onOpen(node)
      }}>
      <span className="card-name">
        <i aria-hidden="true">{statusSigns[state.status]}</i>
        <b>{node.label}</b>
        {!single && <span className="card-total">{node.kind === 'layer' ? '▸' : '×'}{'\u2009'}{state.total.toLocaleString()}</span>}
      </span>
      <span className="card-facts">
        <em>{single ? statusLabels[state.status] : progress(state)}</em>
        {state.attempt > 1 && <span>attempt {state.attempt}</span>}
        {node.finally && single && <span>finally</span>}
        <Took state={state} />
      </span>
      {single ? <span className="card-reason">{state.reason}</span> : <Bar state={state} />}
    </a>
  )
})

function Took({ state }: { state: NodeState }) {
  if (!state.started) return null
  if (state.finished) return <span className="card-took">{duration(Date.parse(state.finished) - Date.parse(state.started))}</span>
  return state.status === 'running' ? <Ticking started={state.started} /> : null
}

function Ticking({ started }: { started: string }) {
  return <span className="card-took">{duration(between(started, undefined, useNow())!)}</span>
}

/** Bar shows how many of several tasks have each status. */
function Bar({ state }: { state: NodeState }) {
  return (
    <span className="card-bar" aria-hidden="true">
      {statusOrder.filter((s) => state.counts[s]).map((s) => <i key={s} data-kind={s} style={{ flexGrow: state.counts[s] }} />)}
    </span>
  )
}

/** progress says how far several tasks are, beginning with what matters most. */
function progress(state: NodeState): string {
  const parts = statusOrder.filter((s) => state.counts[s])
  const shown = parts.slice(0, 2).map((s) => `${state.counts[s]!.toLocaleString()} ${statusLabels[s]}`)
  return shown.join(', ') + (parts.length > 2 ? ', …' : '')
}
