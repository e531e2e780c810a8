import type { ReactNode } from 'react'

/** Details shows named values. Values that are null are left out. */
export function Details({ values }: { values: Record<string, ReactNode> }) {
  return (
    <dl className="details">
      {Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== '' && value !== false).map(([name, value]) => (
        <div key={name}><dt>{name}</dt><dd>{value}</dd></div>
      ))}
    </dl>
  )
}
