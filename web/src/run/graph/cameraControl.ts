import { select, type Selection } from 'd3-selection'
import { zoom, zoomIdentity, type ZoomBehavior } from 'd3-zoom'

import { whole, type Camera, type Size } from './camera'
import type { Placement } from './layout'

const closest = 1.5

/** How far the view may leave the graph, in pixels at zoom 1. */
const edge = 80

/** CameraControl has the camera of an element, which its reader moves by dragging, scrolling and zooming. */
export class CameraControl {
  camera: Camera = { x: 0, y: 0, k: 1 }
  size: Size = { w: 0, h: 0 }
  private readonly movers = new Set<() => void>()
  private readonly sizers = new Set<() => void>()
  private readonly zooming: ZoomBehavior<HTMLElement, unknown>
  private readonly area: Selection<HTMLElement, unknown, null, undefined>
  private readonly sizes: ResizeObserver

  constructor(private readonly element: HTMLElement) {
    this.zooming = zoom<HTMLElement, unknown>()
      .filter((event: MouseEvent) => (event.type !== 'wheel' || event.ctrlKey || event.metaKey) && !event.button)
      .wheelDelta((event: WheelEvent) => -event.deltaY * (event.deltaMode === 1 ? 0.05 : 0.002) * (event.ctrlKey || event.metaKey ? 4 : 1))
      .on('zoom', ({ transform }: { transform: Camera }) => this.set({ x: transform.x, y: transform.y, k: transform.k }))
    this.area = select(element).call(this.zooming).on('dblclick.zoom', null)
    element.addEventListener('wheel', this.scroll, { passive: false })
    this.sizes = new ResizeObserver(() => {
      this.size = { w: element.clientWidth, h: element.clientHeight }
      for (const read of this.sizers) read()
    })
    this.sizes.observe(element)
  }

  /** limit says how far the view of a graph moves and zooms. */
  limit(placement: Placement) {
    this.zooming.scaleExtent([Math.min(whole(placement, this.size).k, 0.2), closest])
    this.zooming.translateExtent([[-edge, -edge], [placement.width + edge, placement.height + edge]])
  }

  /** set is for the first camera: it is not limited. */
  set(camera: Camera) {
    this.camera = camera
    for (const read of this.movers) read()
  }

  move({ x, y, k }: Camera) {
    const extent: [[number, number], [number, number]] = [[0, 0], [this.size.w, this.size.h]]
    this.zooming.transform(this.area, this.zooming.constrain()(zoomIdentity.translate(x, y).scale(k), extent, this.zooming.translateExtent()))
  }

  scaleBy(factor: number) {
    this.zooming.scaleBy(this.area, factor)
  }

  /** onMove calls a reader when the camera moves. */
  onMove(reader: () => void): () => void {
    this.movers.add(reader)
    return () => {
      this.movers.delete(reader)
    }
  }

  /** onSize calls a reader when the size of the element is known, or changes. */
  onSize(reader: () => void): () => void {
    this.sizers.add(reader)
    return () => {
      this.sizers.delete(reader)
    }
  }

  close() {
    this.sizes.disconnect()
    this.element.removeEventListener('wheel', this.scroll)
    this.area.on('.zoom', null)
  }

  private readonly scroll = (event: WheelEvent) => {
    if (event.ctrlKey || event.metaKey) return
    const unit = event.deltaMode === 1 ? 20 : 1
    const [dx, dy] = event.shiftKey && !event.deltaX ? [event.deltaY, 0] : [event.deltaX, event.deltaY]
    const before = this.camera
    this.zooming.translateBy(this.area, (-dx * unit) / before.k, (-dy * unit) / before.k)
    // At its end the page scrolls on.
    if (this.camera.x !== before.x || this.camera.y !== before.y) event.preventDefault()
  }
}
