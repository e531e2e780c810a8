import { useQuery, useQueryClient, type DefaultError, type QueryKey, type UseQueryOptions, type UseQueryResult } from '@tanstack/react-query'
import { useEffect, useRef } from 'react'

import type { Event } from '../api/client'
import { listen } from '../api/listen'

/** How long the page waits for further events before it reads again, and between two readings. */
const quietMillis = 1_000

/** Changes says whether an event may change what a query read. */
type Changes = (event: Event) => boolean

export const runChanges: Changes = (e) => e.type === 'run'
export const anyChanges: Changes = () => true

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
    let timer: number | undefined
    const stop = listen((events) => {
      if (timer !== undefined || document.hidden || !events.some(changes)) return
      timer = window.setTimeout(() => {
        timer = undefined
        void queries.invalidateQueries({ queryKey: key.current, exact: true })
      }, quietMillis)
    })
    return () => {
      stop()
      window.clearTimeout(timer)
    }
  }, [queries, changes])
  return result
}
