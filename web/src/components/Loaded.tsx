import { useQueryClient } from '@tanstack/react-query'
import { useRef, type ReactNode } from 'react'

import { pauseAfter } from '../api/pause'
import { retryNow } from '../api/retry'
import { useNow } from '../lib/time'
import { Failure } from './Notice'

/** What a query is asked for by a page that may have to say that it failed. */
interface Query {
  data?: unknown
  error: unknown
  failureReason: unknown
  failureCount: number
  isFetching: boolean
}

/** A failure that is repeated while the page has older data is shown after this many attempts: an event stream that breaks says so too. */
const quietFailures = 1

interface Failing {
  error: unknown
  /** When the next attempt begins, on the monotonic clock; undefined if there is none, or it runs. */
  next?: number
  trying: boolean
}

/** useFailure returns how a query fails, until it succeeds: it is repeated if that may help. */
function useFailure(query: Query): Failing | undefined {
  const { data, error, failureReason, failureCount, isFetching } = query
  const last = useRef<Failing & { count: number }>(undefined)
  const shown = last.current
  if (error) last.current = { error, trying: false, count: 0 }
  else if (failureReason && (data === undefined || failureCount > quietFailures)) {
    if (shown?.count !== failureCount || shown.error !== failureReason) last.current = { error: failureReason, next: performance.now() + pauseAfter(failureCount), trying: true, count: failureCount }
  } else if (shown?.trying && isFetching) last.current = { error: shown.error, trying: true, count: 0 }
  else last.current = undefined
  return last.current
}

/** Failed says that a query fails, and when it is tried again. It is shown beside what was loaded before. */
export function Failed({ query }: { query: Query }) {
  const failing = useFailure(query)
  const queries = useQueryClient()
  if (!failing) return null
  return (
    <Failure error={failing.error}>
      {failing.trying && <Next at={failing.next} />}
      <p><button type="button" onClick={() => retryNow(queries)}>Try again now</button></p>
    </Failure>
  )
}

/** Next counts down to the next attempt. */
function Next({ at }: { at?: number }) {
  useNow()
  const seconds = at === undefined ? 0 : Math.ceil((at - performance.now()) / 1000)
  return <p className="muted">{seconds > 0 ? `The page tries again in ${seconds} s.` : 'The page is trying again …'}</p>
}

interface LoadedProps<T> {
  query: Query & { data?: T }
  /** What is shown until there is an answer. */
  loading?: ReactNode
  children: (data: T) => ReactNode
}

/** Loaded shows what a query has, and that it fails. What was loaded before stays. */
export function Loaded<T>({ query, loading = 'Loading …', children }: LoadedProps<T>) {
  return (
    <>
      <Failed query={query} />
      {query.data !== undefined ? children(query.data) : !query.error && !query.failureReason && <p className="muted" role="status">{loading}</p>}
    </>
  )
}
