import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState, type RefObject } from 'react'

import { Geometry, rowHeight, type Place } from './scroll'

/** How many rows above and below the view are drawn. */
const margin = 15

/** How long after the last movement the scroll bar is put where the rows are. */
const settleMillis = 150

export interface Scroll {
  /** The rows to draw: from first, up to last. */
  first: number
  last: number
  /** The rows in view. */
  top: number
  bottom: number
  geometry: Geometry
  /** The height of the view. */
  view: number
  /** The rows end at the bottom of the view. */
  atBottom: boolean
  /** The view stays at the end as the log grows. */
  following: boolean
  goTo: (row: number) => void
  toEnd: () => void
  onScroll: () => void
}

/**
 * useScroll draws only the rows in view. The rows are in a box that does not scroll; it follows the scroll bar, whose range
 * may be smaller than the rows are high, and whose rows may be wrapped to any height.
 */
export function useScroll(scroller: RefObject<HTMLDivElement | null>, box: RefObject<HTMLDivElement | null>, rows: number, wrap: boolean): Scroll {
  const [view, setView] = useState(600)
  const [unit, setUnit] = useState(rowHeight)
  const [place, setPlace] = useState<Place>({ row: 0, px: 0 })
  const geometry = useMemo(() => new Geometry(rows, view, wrap ? unit : rowHeight), [rows, view, unit, wrap])
  /** Where the scroll bar was put by the program: the event of that is no movement. */
  const put = useRef(0)
  const current = useRef({ place, geometry, first: 0 })
  const timer = useRef(0)

  useEffect(() => {
    const element = scroller.current
    if (!element) return
    const sizes = new ResizeObserver(() => setView(element.clientHeight))
    sizes.observe(element)
    return () => sizes.disconnect()
  }, [scroller])

  const shown = clamp(place, rows)
  const count = Math.ceil(view / rowHeight)
  const top = shown.bottom ? Math.max(0, rows - count) : shown.row
  const first = Math.max(0, top - margin)
  const last = Math.min(rows - 1, top + count + margin)
  const atBottom = !!shown.bottom && geometry.range > 0

  /** settle puts the scroll bar where the rows are. */
  const settle = useCallback(() => {
    const element = scroller.current
    if (!element) return
    const target = current.current.geometry.scrolled(current.current.place)
    if (Math.abs(element.scrollTop - target) >= 1) element.scrollTop = target
    put.current = element.scrollTop
  }, [scroller])

  useLayoutEffect(() => {
    const moved = current.current.geometry !== geometry
    current.current = { place: shown, geometry, first }
    const element = box.current
    if (!element) return
    if (atBottom) {
      element.style.transform = ''
    } else {
      const child = element.children[shown.row - first] as HTMLElement | undefined
      const above = wrap ? (child?.offsetTop ?? 0) : (shown.row - first) * rowHeight
      element.style.transform = `translateY(${-(above + shown.px)}px)`
    }
    if (wrap && element.children.length > 0) {
      const mean = element.offsetHeight / element.children.length
      const hidden = geometry.range === 0 && element.offsetHeight > view && mean > unit
      if (hidden || Math.abs(mean - unit) > unit / 2) setUnit(Math.max(rowHeight, mean))
      // Wrapped rows end before or after the scroll bar does.
      if (!atBottom && last === rows - 1 && geometry.range > 0) {
        const over = element.getBoundingClientRect().bottom - element.parentElement!.getBoundingClientRect().top - view
        if (over < -1) setPlace({ ...shown, bottom: true })
      }
    }
    if (moved) settle()
  })

  const move = useCallback((next: Place) => {
    current.current = { ...current.current, place: next }
    setPlace(next)
  }, [])

  const onScroll = useCallback(() => {
    const element = scroller.current!
    const { place: from, geometry, first: drawn } = current.current
    const scrolled = element.scrollTop
    const by = scrolled - put.current
    if (by === 0) return
    put.current = scrolled
    const heights = [...(box.current?.children ?? [])] as HTMLElement[]
    const heightOf = (row: number) => (wrap ? heights[row - drawn]?.offsetHeight : undefined) ?? rowHeight
    let next: Place
    if (Math.abs(by) >= element.clientHeight || (geometry.exact && !wrap)) {
      next = geometry.placeOf(scrolled)
    } else {
      next = geometry.walk(from.bottom ? visible(heights, element, drawn) : from, by, heightOf)
      if (by > 0 && scrolled >= geometry.range - 1 && geometry.exact) next = geometry.end()
      const edge = scrolled <= 0 || scrolled >= geometry.range - 1
      if (edge && next.row > 0) queueMicrotask(settle) // so that it can be scrolled further
    }
    move(next)
    window.clearTimeout(timer.current)
    timer.current = window.setTimeout(settle, settleMillis)
  }, [scroller, box, wrap, move, settle])

  useEffect(() => () => window.clearTimeout(timer.current), [])

  const goTo = useCallback((row: number) => {
    const { geometry } = current.current
    const above = Math.floor((scroller.current?.clientHeight ?? 0) / 3 / rowHeight)
    const target = Math.max(0, row - above)
    const end = geometry.end()
    move(!wrap && target >= end.row ? { row: end.row, px: end.px } : { row: target, px: 0 })
    settle()
  }, [scroller, wrap, move, settle])

  const toEnd = useCallback(() => {
    move(current.current.geometry.end())
    settle()
  }, [move, settle])

  return { first, last, top, bottom: Math.min(rows - 1, top + count), geometry, view, atBottom, following: !!shown.bottom, goTo, toEnd, onScroll }
}

function clamp(place: Place, rows: number): Place {
  return place.row < rows ? place : { row: Math.max(0, rows - 1), px: 0, bottom: place.bottom }
}

/** visible returns the first row in view. */
function visible(rows: HTMLElement[], scroller: HTMLElement, first: number): Place {
  const top = scroller.getBoundingClientRect().top
  for (let i = 0; i < rows.length; i++) {
    const { top: begin, bottom: end } = rows[i]!.getBoundingClientRect()
    if (end > top) return { row: first + i, px: Math.max(0, top - begin) }
  }
  return { row: first, px: 0 }
}
