import { useInfiniteQuery, useQueryClient, type InfiniteData } from '@tanstack/react-query'
import { useEffect, useMemo } from 'react'

import { api, type Event, type Run } from '../api/client'
import { listen } from '../api/listen'
import { deletions } from '../api/retry'
import { throttle } from '../lib/throttle'
import { queryOf, type RunFilters } from './filters'

const pageSize = 100
/** Pages in memory: of a million runs only those near the view. */
const maxPages = 6
/** How often the list is read again while events arrive. Between, events change the runs that are shown. */
const refreshMillis = 2000

interface Page {
  runs: Run[]
  next?: string
  prev?: string
  /** The number of rows before this page. */
  at: number
}

interface PageParam {
  cursor?: string
  at: number
  /** Whether the page is before those that were read. */
  back?: boolean
}

type Pages = InfiniteData<Page, PageParam>

/** useRunPages reads the runs page by page, as far as the user scrolls, and keeps those in memory up to date. */
export function useRunPages(filters: RunFilters) {
  const queries = useQueryClient()
  const key = useMemo(() => ['runs', filters] as const, [filters])
  const query = useInfiniteQuery({
    queryKey: key,
    ...deletions,
    initialPageParam: { at: 0 } as PageParam,
    maxPages,
    queryFn: async ({ pageParam, signal }): Promise<Page> => {
      const read: Read = async (cursor, limit) =>
        (await api.GET('/api/v1/runs', { signal, params: { query: { ...queryOf(filters), limit, cursor } } })).data!
      return readPage(read, pageParam)
    },
    getNextPageParam: (last): PageParam | undefined => (last.next ? { cursor: last.next, at: last.at + last.runs.length } : undefined),
    getPreviousPageParam: (first): PageParam | undefined => {
      if (first.at === 0 || !first.prev) return undefined
      // The first page has no cursor, so that it has the newest runs too.
      return first.at <= pageSize ? { at: 0 } : { cursor: first.prev, at: first.at - pageSize, back: true }
    },
  })
  useEffect(() => {
    const refresh = throttle(() => void queries.invalidateQueries({ queryKey: key, exact: true }, { cancelRefetch: false }), refreshMillis)
    return listen((events) => {
      const data = queries.getQueryData<Pages>(key)
      if (!data) return
      const next = patchPages(data, events)
      if (next !== data) queries.setQueryData<Pages>(key, next)
      if (next !== data || events.some((e) => e.type === 'run')) refresh()
    })
  }, [queries, key])
  return query
}

type Read = (cursor: string | undefined, limit: number) => Promise<{ runs: Run[]; next_cursor?: string; prev_cursor?: string }>

/** readPage reads until the page is full: with several filters, answers may be short or empty. */
export async function readPage(read: Read, { cursor, at, back }: PageParam): Promise<Page> {
  const first = await read(cursor, pageSize)
  const page: Page = { runs: first.runs, next: first.next_cursor, prev: first.prev_cursor, at }
  for (;;) {
    const on = back ? page.prev : page.next
    if (page.runs.length >= pageSize || !on) return page
    const more = await read(on, pageSize - page.runs.length)
    page.runs = back ? [...more.runs, ...page.runs] : [...page.runs, ...more.runs]
    if (back) page.prev = more.prev_cursor
    else page.next = more.next_cursor
  }
}

/** patchPages applies events to the runs of pages. It returns the same pages if they change none of them. */
export function patchPages(data: Pages, events: readonly Event[]): Pages {
  const byRun = new Map<string, Event[]>()
  for (const e of events) {
    const of = byRun.get(e.run)
    if (of) of.push(e)
    else byRun.set(e.run, [e])
  }
  let changed = false
  const pages = data.pages.map((page) => {
    if (!page.runs.some((r) => byRun.has(r.id))) return page
    changed = true
    return { ...page, runs: page.runs.map((r) => patchRow(r, byRun.get(r.id))) }
  })
  return changed ? { ...data, pages } : data
}

function patchRow(run: Run, events: readonly Event[] | undefined): Run {
  if (!events) return run
  const next = { ...run }
  for (const e of events) {
    if (e.type !== 'run') continue
    next.phase = e.phase ?? next.phase
    next.result = e.result ?? next.result
    next.reason = e.reason ?? next.reason
    if (e.action === 'stop') next.stop_requested = true
    if (e.phase === 'running') next.started_at ??= e.time
    if (e.phase === 'finished' || e.phase === 'cancelled') next.ended_at ??= e.time
  }
  return next
}
