import { useQuery, useQueryClient, type DefaultError, type QueryClient, type QueryKey, type UseQueryOptions, type UseQueryResult } from '@tanstack/react-query'
import { useEffect, useRef } from 'react'

import type { Event } from '../api/client'
import { listen } from '../api/listen'

/** How long the page waits for further events before it reads again, and between two readings. */
const quietMillis = 1_000

/** Changes says whether an event may change what a query read. */
type Changes = (event: Event) => boolean

export const runChanges: Changes = (e) => e.type === 'run'
/** slotChanges are events of runs, and of tasks that may begin to wait for slots, got them, or gave them back: those that begin did not. */
export const slotChanges: Changes = (e) => e.type === 'run' || (e.type === 'task' && e.status !== 'running')
export const anyChanges: Changes = () => true

/** rereader reads a query again a while after later is called. A reading that takes longer is not interrupted: the next one follows it. */
export function rereader(queries: QueryClient, key: () => QueryKey) {
  let timer: ReturnType<typeof setTimeout> | undefined
  const read = () => {
    timer = undefined
    const filters = { queryKey: key(), exact: true }
    if (queries.isFetching(filters) > 0) later()
    else void queries.invalidateQueries(filters, { cancelRefetch: false })
  }
  const later = () => { timer ??= setTimeout(read, quietMillis) }
  return { later, close: () => clearTimeout(timer) }
}

/**
 * useLiveQuery is useQuery whose data is read again after the events that may change it: at most once a second, however
 * many events there are. Hidden pages read again when they are shown.
 */
export function useLiveQuery<F, T, K extends QueryKey>(options: UseQueryOptions<F, DefaultError, T, K>, changes: Changes = anyChanges): UseQueryResult<T> {
  const queries = useQueryClient()
  const result = useQuery(options)
  const key = useRef(options.queryKey)
  key.current = options.queryKey
  useEffect(() => {
    const again = rereader(queries, () => key.current)
    const stop = listen((events) => {
      const changed = events.filter(changes).length > 0 // changes may note what it sees, so it sees all
      if (!document.hidden && changed) again.later()
    })
    return () => {
      stop()
      again.close()
    }
  }, [queries, changes])
  return result
}
