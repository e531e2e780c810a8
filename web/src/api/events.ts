import { useQueryClient, type QueryClient } from '@tanstack/react-query'
import { createContext, useContext, useEffect, useState } from 'react'

import { finalStatuses } from '../lib/status'
import type { Event, Run } from './client'
import { eventOf } from './eventOf'
import { announce } from './listen'
import { Refresh } from './run'

/** Live is the state of the page's only event stream. */
export type Live = 'connecting' | 'live' | 'lost'

const LiveContext = createContext<Live>('connecting')
export const LiveProvider = LiveContext.Provider
export const useLive = () => useContext(LiveContext)

/** How long events are collected before the page is drawn again. */
const collectMillis = 150

/**
 * useEvents keeps one event stream open, and applies its events to what the page has loaded. The browser resumes a
 * stream that breaks with the id of the last event; after events that are gone, everything is loaded again.
 */
export function useEvents(): Live {
  const queries = useQueryClient()
  const [live, setLive] = useState<Live>('connecting')
  useEffect(() => {
    let pending: Event[] = []
    let timer: number | undefined
    let retry: number | undefined
    let source: EventSource
    let attempts = 0

    const refresh = new Refresh(queries)

    const flush = () => {
      timer = undefined
      apply(queries, refresh, pending)
      announce(pending)
      pending = []
    }
    const receive = (message: MessageEvent<string>) => {
      const event = eventOf(message.data)
      // What an event that cannot be read has changed is loaded again.
      if (!event) return void queries.invalidateQueries()
      pending.push(event)
      timer ??= window.setTimeout(flush, collectMillis)
    }
    const open = () => {
      source = new EventSource('/api/v1/events?from=now')
      source.onopen = () => {
        // What was loaded may be older than the stream; so may answers on their way, but a second request at once would delay the page.
        const reading = queries.getQueryCache().findAll({ queryKey: ['run'], fetchStatus: 'fetching' })
        void queries.invalidateQueries({}, { cancelRefetch: false })
        for (const query of reading) refresh.later(String(query.queryKey[1]))
        attempts = 0
        setLive('live')
      }
      source.onerror = () => {
        setLive('lost')
        if (source.readyState !== EventSource.CLOSED) return // the browser tries again
        attempts++
        retry = window.setTimeout(open, Math.min(15_000, 500 * 2 ** attempts))
      }
      for (const type of eventTypes) source.addEventListener(type, receive)
      source.addEventListener('problem', () => {
        source.close()
        attempts++
        retry = window.setTimeout(open, 500)
      })
    }
    open()
    return () => {
      source.close()
      refresh.close()
      window.clearTimeout(timer)
      window.clearTimeout(retry)
    }
  }, [queries])
  return live
}

const eventTypes = ['run', 'task', 'stage'] as const

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
