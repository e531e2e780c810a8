import { slice } from '../../lib/slices'
import type { Camera, Size } from './camera'

/** How far the picture reaches beyond the view, in pixels: a view that moves within it needs no other picture. */
export const beyond = 160

/** How many steps of the painting a frame has at most: the browser also takes time for what it is given to draw. */
const maxSteps = 24

/** painting draws what a camera sees on a canvas of a size, in steps. */
type Painting = (context: CanvasRenderingContext2D, camera: Camera, size: Size, ratio: number) => Iterator<unknown>

interface Sheet {
  canvas: HTMLCanvasElement
  context: CanvasRenderingContext2D
  camera: Camera
  view: Size
}

/**
 * Picture is what a canvas shows behind the cards. It is painted on a second canvas, as many frames as that takes, and then
 * shown; until then the one before moves and grows with the view, so that no movement waits for a painting.
 */
export class Picture {
  private shown: Sheet
  private hidden: Sheet
  private painting: Painting | undefined
  private work: Iterator<unknown> | undefined
  private changed = true
  private painted = false
  private view: Size = { w: 0, h: 0 }
  private ratio = 1

  constructor(shown: HTMLCanvasElement, hidden: HTMLCanvasElement) {
    this.shown = sheet(shown)
    this.hidden = sheet(hidden)
  }

  /** use says what draws the picture from now on. */
  use(painting: Painting) {
    this.painting = painting
    this.work = undefined
    this.changed = true
  }

  /** change says that the picture must be painted again, also for the same camera. */
  change() {
    this.changed = true
  }

  resize(view: Size, ratio: number) {
    this.view = view
    this.ratio = ratio
    this.work = undefined
    this.changed = true
  }

  /** frame shows the picture for a camera, and paints a part of the next one. It returns whether that needs more frames. */
  frame(camera: Camera): boolean {
    if (!this.painting) return false
    if (!this.work && (this.changed || !this.covers(camera))) this.begin(camera, this.painting)
    if (this.work) this.paint(this.work)
    this.place(camera)
    return this.work !== undefined || this.changed || !this.covers(camera)
  }

  /** isPainted says whether there was a first picture. */
  get isPainted(): boolean {
    return this.painted
  }

  private covers({ x, y, k }: Camera): boolean {
    const { camera, view } = this.shown
    return k === camera.k && Math.abs(x - camera.x) <= beyond && Math.abs(y - camera.y) <= beyond && view.w === this.view.w && view.h === this.view.h
  }

  private begin(camera: Camera, painting: Painting) {
    this.changed = false
    const { canvas, context } = this.hidden
    const size = { w: this.view.w + 2 * beyond, h: this.view.h + 2 * beyond }
    const [width, height] = [Math.round(size.w * this.ratio), Math.round(size.h * this.ratio)]
    if (canvas.width !== width || canvas.height !== height) {
      canvas.width = width
      canvas.height = height
      canvas.style.width = `${size.w}px`
      canvas.style.height = `${size.h}px`
    }
    this.hidden.camera = camera
    this.hidden.view = this.view
    this.work = painting(context, { x: camera.x + beyond, y: camera.y + beyond, k: camera.k }, size, this.ratio)
  }

  private paint(work: Iterator<unknown>) {
    let done: boolean | undefined
    let steps = 0
    // The last step of a slice ends it, also if there is time.
    const bounded: Iterator<unknown> = {
      next: () => {
        const step = work.next()
        done = step.done
        return ++steps >= maxSteps ? { done: true, value: undefined } : step
      },
    }
    slice(bounded)
    if (!done) return
    this.work = undefined
    this.painted = true
    const { shown } = this
    this.shown = this.hidden
    this.hidden = shown
    this.shown.canvas.style.visibility = 'visible'
    this.hidden.canvas.style.visibility = 'hidden'
  }

  private place({ x, y, k }: Camera) {
    const { camera, canvas } = this.shown
    const scale = k / camera.k
    canvas.style.transform = `translate(${x - (camera.x + beyond) * scale}px, ${y - (camera.y + beyond) * scale}px) scale(${scale})`
  }
}

function sheet(canvas: HTMLCanvasElement): Sheet {
  canvas.style.visibility = 'hidden'
  return { canvas, context: canvas.getContext('2d')!, camera: { x: 0, y: 0, k: 1 }, view: { w: 0, h: 0 } }
}
