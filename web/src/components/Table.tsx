import type { ReactNode } from 'react'

import './Table.css'

export interface Column<T> {
  title: string
  cell: (row: T) => ReactNode
  number?: boolean
}

export interface TableProps<T> {
  label: string
  rows: readonly T[]
  columns: Column<T>[]
  idOf: (row: T) => string
  /** What is shown if there are no rows. */
  empty: ReactNode
}

/** Table shows some rows. Long lists use virtual rows instead. */
export function Table<T>({ label, rows, columns, idOf, empty }: TableProps<T>) {
  if (rows.length === 0) return <div className="empty">{empty}</div>
  return (
    <table className="table" aria-label={label}>
      <thead><tr>{columns.map((c) => <th key={c.title} scope="col" className={c.number ? 'number' : undefined}>{c.title}</th>)}</tr></thead>
      <tbody>
        {rows.map((row) => (
          <tr key={idOf(row)}>{columns.map((c) => <td key={c.title} data-title={c.title} className={c.number ? 'number' : undefined}><div className="cell">{c.cell(row)}</div></td>)}</tr>
        ))}
      </tbody>
    </table>
  )
}
