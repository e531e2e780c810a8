/** The height of a row that is not wrapped, in pixels. */
export const rowHeight = 20

/** The height that all supported browsers scroll to the pixel; longer logs have a scroll bar with coarser steps. */
const maxHeight = 8_000_000

/** Place is the row at the top of the view, and how many pixels of it are above the view. */
export interface Place {
  row: number
  px: number
  /** The end of the log is at the bottom of the view, no matter which row that puts at the top. */
  bottom?: boolean
}

/** Geometry relates the scroll bar with the rows. */
export class Geometry {
  /** The height of what the scroll bar scrolls. */
  readonly height: number
  /** The greatest position of the scroll bar. */
  readonly range: number
  /** The greatest distance of the view from the first row. */
  private readonly distance: number
  private readonly unit: number
  readonly rows: number

  /** unit is the mean height of a row. */
  constructor(rows: number, view: number, unit: number) {
    this.rows = rows
    this.unit = unit
    this.height = Math.min(rows * unit, Math.max(maxHeight, 2 * view))
    this.range = Math.max(0, this.height - view)
    this.distance = Math.max(0, rows * unit - view)
  }

  /** The scroll bar moves the rows pixel by pixel. */
  get exact(): boolean {
    return this.distance === this.range
  }

  placeOf(scrolled: number): Place {
    if (this.range === 0) return { row: 0, px: 0 }
    // Browsers round positions, some to whole pixels.
    if (scrolled >= this.range - 1) return this.end()
    const at = Math.max(0, scrolled) * (this.distance / this.range)
    const row = Math.min(this.rows - 1, Math.floor(at / this.unit))
    return { row, px: at - row * this.unit }
  }

  scrolled(place: Place): number {
    if (this.range === 0) return 0
    if (place.bottom) return this.range
    return Math.min(this.range, (place.row * this.unit + place.px) * (this.range / this.distance))
  }

  end(): Place {
    const at = this.distance
    const row = Math.max(0, Math.min(this.rows - 1, Math.floor(at / this.unit)))
    return { row, px: at - row * this.unit, bottom: true }
  }

  /** walk moves a place by pixels, over rows whose heights are known. */
  walk(from: Place, by: number, heightOf: (row: number) => number): Place {
    let { row } = from
    let px = from.px + by
    while (px < 0 && row > 0) px += heightOf(--row)
    if (px < 0) return { row: 0, px: 0 }
    while (row < this.rows - 1) {
      const height = heightOf(row)
      if (px < height) break
      px -= height
      row++
    }
    return { row, px }
  }
}
