import type { ReactNode } from 'react'

import { Failure } from './Notice'

interface Props<T> {
  query: { data?: T; error: unknown; refetch: () => unknown }
  children: (data: T) => ReactNode
}

/** Loaded shows what a query has, and what is the matter if it fails. What was loaded before stays. */
export function Loaded<T>({ query, children }: Props<T>) {
  return (
    <>
      {query.error ? <Failure error={query.error} retry={() => void query.refetch()} /> : null}
      {query.data !== undefined ? children(query.data) : !query.error && <p className="muted" role="status">Loading …</p>}
    </>
  )
}
