import { startTransition, useCallback, useEffect, useImperativeHandle, useLayoutEffect, useMemo, useRef, useState, type KeyboardEvent, type Ref } from 'react'

import type { Kind } from '../../lib/status'
import { follow, nearZoom, showing, whole } from './camera'
import { CameraControl } from './cameraControl'
import { Card } from './Card'
import { grow } from './cards'
import { onTheme, painting, themeOf, visible, type Scene } from './drawing'
import { dependenciesOf, neighbour, type GraphNode } from './graph'
import type { GraphStore } from './graphStore'
import type { Placement } from './layout'
import { Minimap } from './Minimap'
import { Picture } from './picture'

/** What the buttons around a graph do with it. */
export interface GraphHandle {
  zoomBy: (factor: number) => void
  fit: () => void
  /** show moves a node into view and gives it the focus. */
  show: (node: number) => void
  /** focus gives the focus to the node that had it last. */
  focus: () => void
}

interface Props {
  store: GraphStore
  placement: Placement
  /** The id of the node whose tasks are listed. */
  opened: string | undefined
  /** Where the page of a task is. */
  hrefOf: (task: string) => string
  onOpen: (node: GraphNode) => void
  /** onClose is called with a node on whose card Escape was pressed. */
  onClose: (node: GraphNode) => void
  ref?: Ref<GraphHandle>
}

/** How far around the view the cards exist already, in pixels; the part changes in steps of this size too. */
const around = 240

/** How many cards are added in one frame. */
const cardsAtOnce = 24

/**
 * GraphView shows a graph of any size. All edges, and the nodes that are too small to read, are drawn on a canvas; only
 * nodes in view that can be read are elements. Moving and zooming changes two transforms; the rest follows in slices.
 */
export function GraphView({ store, placement, opened, hrefOf, onOpen, onClose, ref }: Props) {
  const frame = useRef<HTMLDivElement>(null)
  const canvas = useRef<HTMLCanvasElement>(null)
  const second = useRef<HTMLCanvasElement>(null)
  const world = useRef<HTMLDivElement>(null)
  const { graph } = store
  const [control, setControl] = useState<CameraControl>()
  const [wanted, setWanted] = useState<readonly number[]>([])
  const cards = useGradually(wanted)
  const [activeID, setActive] = useState<string>()
  const [request, setRequest] = useState(0)
  const focusNext = useRef(false)
  const picture = useRef<Picture>(undefined)
  const scene = useRef<Scene>(undefined)
  const paint = useRef<() => void>(() => undefined)
  const first = useMemo(() => urgentOf(store), [store])
  const dependencies = useMemo(() => dependenciesOf(graph), [graph])
  const current = activeID === undefined ? undefined : graph.index.get(activeID)
  // One node is reached with Tab, and the others with the arrow keys.
  const entry = current ?? first

  useLayoutEffect(() => {
    const control = new CameraControl(frame.current!)
    picture.current = new Picture(canvas.current!, second.current!)
    setControl(control)
    return () => control.close()
  }, [])

  const reveal = useCallback((node: number) => {
    if (control) control.move(showing(placement, node, control.camera, control.size))
  }, [placement, control])

  const show = useCallback((node: number) => {
    focusNext.current = true
    setActive(graph.nodes[node]!.id)
    setRequest((n) => n + 1)
    reveal(node)
  }, [reveal, graph])

  const fit = useCallback(() => {
    if (control) control.move(whole(placement, control.size))
  }, [placement, control])

  useImperativeHandle(ref, () => ({
    zoomBy: (factor) => control?.scaleBy(factor),
    fit,
    show,
    focus: () => show(entry),
  }), [control, fit, show, entry])

  // The picture of the graph, and what moves and changes it.
  useLayoutEffect(() => {
    if (!control) return
    const element = frame.current!
    const sheets = picture.current!
    const before = scene.current
    const now: Scene = { store, placement, theme: themeOf(element), active: undefined, cards: new Set() }
    scene.current = now
    sheets.use((context, camera, size, ratio) => painting(context, now, camera, size, ratio))
    let pending = 0
    let region = ''
    const redraw = () => {
      pending = 0
      const { camera: { x, y, k }, size } = control
      world.current!.style.transform = `translate(${x}px, ${y}px) scale(${k})`
      if (sheets.frame(control.camera)) paint.current()
      if (sheets.isPainted) element.dataset.drawn = ''
      const cell = (value: number) => Math.floor(value / around) * around
      const near = k >= nearZoom
      world.current!.dataset.zoom = near ? 'near' : 'far'
      const [left, top, right, bottom] = near ? [cell(-x / k) - around, cell(-y / k) - around, cell((size.w - x) / k) + 2 * around, cell((size.h - y) / k) + 2 * around] : [0, 0, 0, 0]
      const next = `${left} ${top} ${right} ${bottom}`
      if (next === region) return
      region = next
      startTransition(() => setWanted(near ? visible(placement, left, top, right, bottom) : []))
    }
    paint.current = () => { pending ||= requestAnimationFrame(redraw) }

    let placed = false
    const fitted = () => {
      const { size } = control
      if (size.w === 0) return // its size is not known yet
      sheets.resize(size, Math.min(2, window.devicePixelRatio || 1))
      control.limit(placement)
      if (!placed) {
        placed = true
        const all = whole(placement, size)
        if (before) control.move(follow({ graph: before.store.graph, placement: before.placement }, { graph: store.graph, placement }, control.camera, size))
        else if (all.k >= 0.6) control.move(all)
        else control.move(showing(placement, urgentOf(store), { x: 0, y: 0, k: 0.8 }, size, true))
      }
      redraw()
    }
    const changed = () => {
      sheets.change()
      paint.current()
    }
    const stops = [
      control.onMove(() => paint.current()),
      control.onSize(fitted),
      store.subscribeAll(changed),
      onTheme(() => {
        now.theme = themeOf(element)
        changed()
      }),
    ]
    fitted()
    return () => {
      for (const stop of stops) stop()
      cancelAnimationFrame(pending)
    }
  }, [control, store, placement])

  const shown = useMemo(() => (cards.includes(entry) ? cards : [...cards, entry]), [cards, entry])
  useLayoutEffect(() => {
    if (!scene.current) return
    scene.current.cards = new Set(shown)
    scene.current.active = current
    picture.current!.change()
    paint.current()
  }, [shown, current, store, control])
  useEffect(() => {
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
      control?.scaleBy(event.key === '+' ? 1.3 : 1 / 1.3)
    } else if (event.key === 'Escape') {
      onClose(graph.nodes[entry]!)
    }
  }
  return (
    <div className="graph-stage">
      <div className="graph-frame" ref={frame} role="group" aria-label="Graph of the tasks. Arrow keys move along the edges, Enter opens a task, ? lists all keys."
        onClick={(e) => {
          // A node that is only drawn comes closer.
          if (!control || control.camera.k >= nearZoom) return
          const box = e.currentTarget.getBoundingClientRect()
          const { x, y, k } = control.camera
          const [left, top] = [(e.clientX - box.left - x) / k, (e.clientY - box.top - y) / k]
          const [node] = visible(placement, left, top, left, top)
          if (node !== undefined) show(node)
        }}
        onKeyDown={onKeyDown} onFocus={(e) => { if (e.target.matches('.card:focus-visible')) reveal(Number((e.target as HTMLElement).dataset.node)) }} onScroll={(e) => e.currentTarget.scrollTo(0, 0)}>
        <canvas ref={canvas} />
        <canvas ref={second} />
        <div className="graph-world" ref={world}>
          {shown.map((node) => node < graph.nodes.length && (
            <Card key={graph.nodes[node]!.id} store={store} node={node} x={placement.x[node]!} y={placement.y[node]!} dependencies={dependencies[node]!}
              opened={graph.nodes[node]!.id === opened} tab={node === entry} hrefOf={hrefOf} onOpen={onOpen} onFocus={setActive} />
          ))}
        </div>
      </div>
      {control && <Minimap store={store} placement={placement} control={control} />}
    </div>
  )
}

const directions: Record<string, 'left' | 'right' | 'up' | 'down'> = { ArrowLeft: 'left', ArrowRight: 'right', ArrowUp: 'up', ArrowDown: 'down' }

/** useGradually returns the cards that are wanted; of many new ones, some come with each frame. */
function useGradually(wanted: readonly number[]): readonly number[] {
  const [shown, setShown] = useState<readonly number[]>([])
  useEffect(() => {
    const next = grow(shown, wanted, cardsAtOnce)
    if (next === shown) return
    const frame = requestAnimationFrame(() => startTransition(() => setShown(next)))
    return () => cancelAnimationFrame(frame)
  }, [shown, wanted])
  return shown
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

const urgent: readonly Kind[] = ['failed', 'stopped', 'running', 'waiting_approval', 'waiting_changegroup', 'queued', 'warnings']
