import { useQueryClient, type QueryClient } from '@tanstack/react-query'
import { createContext, useContext, useEffect, useState } from 'react'

import { below } from '../lib/base'
import { finalStatuses } from '../lib/status'
import { throttle } from '../lib/throttle'
import type { Event, Run } from './client'
import { announce } from './listen'
import { retryNow } from './retry'
import { Refresh } from './run'
import { joinFeed } from './sharedFeed'

/** Live is the state of the event stream. */
export type Live = 'connecting' | 'live' | 'lost'

const LiveContext = createContext<Live>('connecting')
export const LiveProvider = LiveContext.Provider
export const useLive = () => useContext(LiveContext)

/** How long events are collected before the page is drawn again. */
const collectMillis = 150

/** The least time between two readings of everything that the page shows, because of events that cannot be read. */
const reloadMillis = 2_000

/** How many events are applied at once: those of a run of 10,000 tasks that is stopped would hold the page up. */
const maxEvents = 1500

/** What the stream of events tells nothing about: it changes with the server or the login, and the page has just loaded it when its first stream opens. */
const unrelated = new Set<unknown>(['session', 'version', 'links'])

/** useEvents applies the events that the user may see to what the page has loaded. When the stream is opened, everything is loaded again. */
export function useEvents(subject: string): Live {
  const queries = useQueryClient()
  const [live, setLive] = useState<Live>('connecting')
  useEffect(() => {
    const pending: Event[] = []
    let timer: number | undefined
    let opened = false
    const refresh = new Refresh(queries)
    const reload = throttle(() => void queries.invalidateQueries({}, { cancelRefetch: false }), reloadMillis)

    const flush = () => {
      const events = pending.splice(0, maxEvents)
      timer = pending.length > 0 ? window.setTimeout(flush, collectMillis) : undefined
      apply(queries, refresh, events)
      announce(events)
    }
    const leave = joinFeed(new URL(below('/api/v1/events?from=now'), window.location.origin).href, subject, {
      onLive() {
        // What was loaded may be older than the stream; so may answers on their way, but a second request at once would delay the page.
        const reading = queries.getQueryCache().findAll({ queryKey: ['run'], fetchStatus: 'fetching' })
        retryNow(queries)
        const again = opened
        opened = true
        void queries.invalidateQueries({ predicate: ({ queryKey }) => again || !unrelated.has(queryKey[0]) }, { cancelRefetch: false })
        for (const query of reading) refresh.later(String(query.queryKey[1]))
        setLive('live')
      },
      onLost: () => setLive('lost'),
      onEvent(event) {
        // What an event that cannot be read has changed is loaded again.
        if (!event) return reload()
        pending.push(event)
        timer ??= window.setTimeout(flush, collectMillis)
      },
    })
    return () => {
      leave()
      refresh.close()
      window.clearTimeout(timer)
    }
  }, [queries, subject])
  return live
}

/** apply changes what the page has loaded, and loads again what events do not tell. */
function apply(queries: QueryClient, refresh: Refresh, events: Event[]) {
  const byRun = Map.groupBy(events, (e) => e.run)
  for (const [id, of] of byRun) {
    const known = queries.getQueryData<Run>(['run', id])
    if (!known) continue
    queries.setQueryData(['run', id], patch(known, of))
    refresh.later(id)
  }
}

/** patch returns the run after the events. Tasks that did not change keep their identity. */
export function patch(run: Run, events: Event[]): Run {
  const next: Run = { ...run }
  for (const e of events) {
    if (e.type === 'run') {
      next.phase = e.phase ?? next.phase
      next.result = e.result ?? next.result
      next.reason = e.reason ?? next.reason
    }
    const task = e.task === undefined ? undefined : next.tasks?.[e.task]
    if (e.type === 'stage' && e.task !== undefined && task) {
      if (next.tasks === run.tasks) next.tasks = { ...run.tasks }
      next.tasks![e.task] = { ...task, stage: e.stage }
    }
    if (e.type !== 'task' || e.task === undefined || !task) continue
    if (next.tasks === run.tasks) next.tasks = { ...run.tasks }
    next.tasks![e.task] = {
      ...task,
      status: e.status ?? task.status,
      reason: e.reason ?? '',
      attempt: e.attempt ?? task.attempt,
      executor: e.executor ?? task.executor,
      exit_code: e.exit_code ?? task.exit_code,
      ...(e.status === 'running' ? { started_at: e.time } : {}),
      ...(e.status && finalStatuses.has(e.status) ? { ended_at: e.time } : {}),
    }
  }
  return next
}
