import type { ReactNode } from 'react'

export interface Column<T> {
  title: string
  cell: (row: T) => ReactNode
  number?: boolean
}

/** Table shows some rows. Long lists use virtual rows instead. */
export function Table<T>({ label, rows, columns, idOf, empty }: { label: string; rows: readonly T[]; columns: Column<T>[]; idOf: (row: T) => string; empty: ReactNode }) {
  if (rows.length === 0) return <div className="empty">{empty}</div>
  return (
    <table className="table" aria-label={label}>
      <thead><tr>{columns.map((c) => <th key={c.title} scope="col">{c.title}</th>)}</tr></thead>
      <tbody>
        {rows.map((row) => (
          <tr key={idOf(row)}>{columns.map((c) => <td key={c.title} className={c.number ? 'number' : undefined}>{c.cell(row)}</td>)}</tr>
        ))}
      </tbody>
    </table>
  )
}
