import { useVirtualizer } from '@tanstack/react-virtual'
import { useRef, type CSSProperties, type ReactNode } from 'react'

import './VirtualRows.css'

export interface VirtualColumn<T> {
  title: string
  /** The width, as a track of a grid. */
  width: string
  cell: (row: T) => ReactNode
  /** Hidden where the page is narrow. */
  wide?: boolean
  /** Rows can be sorted by this column, under this name. */
  sort?: string
}

interface Props<T> {
  label: string
  rows: readonly T[]
  keyOf: (row: T) => string
  columns: readonly VirtualColumn<T>[]
  rowHeight?: number
  /** The column that the rows are sorted by; a minus sign reverses it. */
  sort?: string
  onSort?: (sort: string) => void
}

/** VirtualRows is a table of any length: only the rows in view are in the document. */
export function VirtualRows<T>({ label, rows, keyOf, columns, rowHeight = 36, sort, onSort }: Props<T>) {
  const scroller = useRef<HTMLDivElement>(null)
  const view = useVirtualizer({ count: rows.length, getScrollElement: () => scroller.current, estimateSize: () => rowHeight, overscan: 12 })
  const tracks = {
    '--columns': columns.map((c) => c.width).join(' '),
    '--narrow': columns.filter((c) => !c.wide).map((c) => c.width).join(' '),
  } as CSSProperties
  return (
    <div className="vrows" ref={scroller} role="table" aria-label={label} aria-rowcount={rows.length + 1} tabIndex={0} style={tracks}>
      <div role="rowgroup" className="vhead">
        <div className="vrow" role="row" aria-rowindex={1}>
          {columns.map((c) => {
            const direction = sort === c.sort ? 'ascending' : sort === `-${c.sort}` ? 'descending' : undefined
            return (
              <span key={c.title} role="columnheader" className={c.wide ? 'wide-only' : undefined} aria-sort={c.sort ? (direction ?? 'none') : undefined}>
                {c.sort && onSort
                  ? <button onClick={() => onSort(direction === 'ascending' ? `-${c.sort}` : c.sort!)}>{c.title}<span aria-hidden="true">{direction === 'ascending' ? ' ↑' : direction === 'descending' ? ' ↓' : ''}</span></button>
                  : c.title}
              </span>
            )
          })}
        </div>
      </div>
      <div role="rowgroup" className="vbody" style={{ height: view.getTotalSize() }}>
        {view.getVirtualItems().map((item) => {
          const row = rows[item.index]!
          return (
            <div key={keyOf(row)} className="vrow" role="row" aria-rowindex={item.index + 2} style={{ height: rowHeight, transform: `translateY(${item.start}px)` }}>
              {columns.map((c) => <span key={c.title} role="cell" className={c.wide ? 'wide-only' : undefined}>{c.cell(row)}</span>)}
            </div>
          )
        })}
      </div>
    </div>
  )
}
