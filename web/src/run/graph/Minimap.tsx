import { useCallback, useEffect, useMemo, useRef, useSyncExternalStore } from 'react'

import { usePreference } from '../../lib/preference'
import { slice } from '../../lib/slices'
import { statusOrder, type Kind } from '../../lib/status'
import { throttle } from '../../lib/throttle'
import type { CameraControl } from './cameraControl'
import { hollow, onTheme, themeOf, type Theme } from './drawing'
import type { GraphStore } from './graphStore'
import type { Placement } from './layout'
import { cameraTo, isLarger, overviewOf, rectOf, viewIn, type Overview } from './overview'

interface Props {
  store: GraphStore
  placement: Placement
  control: CameraControl
}

/** How long after a change the overview is drawn again, in milliseconds. */
const drawMillis = 250

/**
 * Minimap is an overview of a graph that is larger than the view: the statuses of its nodes as colours, and the part that is
 * in view, which it moves. What it shows is in the table of tasks too, so readers of the page who do not see it have no part of it.
 */
export function Minimap(props: Props) {
  const { placement, control } = props
  const [on, setOn] = usePreference('graph.map', true)
  const larger = useSyncExternalStore(useCallback((reader: () => void) => control.onSize(reader), [control]), () => isLarger(placement, control.size))
  if (!larger) return null
  return (
    <div className="graph-map">
      {on && <OverviewMap {...props} />}
      <button aria-pressed={on} title={on ? 'Hide the map' : 'Show the map'} onClick={() => setOn(!on)}>Map</button>
    </div>
  )
}

function OverviewMap({ store, placement, control }: Props) {
  const box = useRef<HTMLDivElement>(null)
  const canvas = useRef<HTMLCanvasElement>(null)
  const view = useRef<HTMLDivElement>(null)
  const overview = useMemo(() => overviewOf(placement), [placement])

  useEffect(() => {
    const ratio = Math.min(2, window.devicePixelRatio || 1)
    const element = canvas.current!
    element.width = overview.w * ratio
    element.height = overview.h * ratio
    const context = element.getContext('2d')!
    context.scale(ratio, ratio)
    let theme = themeOf(element)
    let frame = 0
    let work: Iterator<unknown>
    const step = () => { frame = slice(work) ? 0 : requestAnimationFrame(step) }
    const draw = throttle(() => {
      work = paint(context, store, placement, overview, theme)
      frame ||= requestAnimationFrame(step)
    }, drawMillis)
    draw()
    const stopStore = store.subscribeAll(draw)
    const stopTheme = onTheme(() => {
      theme = themeOf(element)
      draw()
    })
    return () => {
      stopStore()
      stopTheme()
      cancelAnimationFrame(frame)
    }
  }, [store, placement, overview])

  useEffect(() => {
    const follow = () => {
      const { x, y, w, h } = viewIn(overview, control.camera, control.size)
      Object.assign(view.current!.style, { transform: `translate(${x}px, ${y}px)`, width: `${w}px`, height: `${h}px` })
    }
    follow()
    const stops = [control.onMove(follow), control.onSize(follow)]
    return () => { for (const stop of stops) stop() }
  }, [overview, control])

  useEffect(() => {
    const element = box.current!
    const move = (event: PointerEvent) => {
      if (event.type === 'pointermove' && !element.hasPointerCapture(event.pointerId)) return
      if (event.type === 'pointerdown') element.setPointerCapture(event.pointerId)
      event.preventDefault()
      const { left, top } = element.getBoundingClientRect()
      control.move(cameraTo(overview, event.clientX - left, event.clientY - top, control.camera, control.size))
    }
    element.addEventListener('pointerdown', move)
    element.addEventListener('pointermove', move)
    return () => {
      element.removeEventListener('pointerdown', move)
      element.removeEventListener('pointermove', move)
    }
  }, [overview, control])

  return (
    <div className="graph-overview" ref={box} aria-hidden="true" style={{ width: overview.w, height: overview.h }}>
      <canvas ref={canvas} style={{ width: overview.w, height: overview.h }} />
      <div className="graph-overview-view" ref={view} />
    </div>
  )
}

/** paint draws all nodes in steps, the most urgent last: several nodes may share a pixel. */
function* paint(context: CanvasRenderingContext2D, store: GraphStore, placement: Placement, overview: Overview, theme: Theme): Generator<undefined, void> {
  const byStatus = new Map<Kind, number[]>()
  for (let node = 0; node < store.graph.nodes.length; node++) {
    const { status } = store.state(node)
    const of = byStatus.get(status)
    if (of) of.push(node)
    else byStatus.set(status, [node])
    if (node % 200 === 199) yield
  }
  for (const status of statusOrder.toReversed()) {
    context.fillStyle = hollow.has(status) ? theme.edge : theme.status[status]
    for (const [i, node] of (byStatus.get(status) ?? []).entries()) {
      const { x, y, w, h } = rectOf(overview, placement, node)
      context.fillRect(x, y, w, h)
      if (i % 200 === 199) yield
    }
  }
}
