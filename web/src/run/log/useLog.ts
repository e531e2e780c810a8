import { useCallback, useEffect, useReducer, useState } from 'react'

import { api } from '../../api/client'
import { isTemporary } from '../../api/problem'
import { pauseAfter } from '../../api/pause'
import { below } from '../../lib/base'
import { throttle } from '../../lib/throttle'
import { follow, type Following } from './follow'
import { PartLoader } from './loader'
import { LogStore, partLines } from './store'

/** A log that grows is drawn at most once in this time, in milliseconds. */
const drawMillis = 100

export type LogState = Following | { kind: 'loading' } | { kind: 'retrying'; error: unknown }

export interface Log {
  store: LogStore
  state: LogState
  /** The whole index is read. */
  indexed: boolean
  want: (first: number, last: number) => void
}

/** logAddress returns the address of a task's log. */
export function logAddress(run: string, task: string, attempt?: number, service?: string): URL {
  const url = new URL(below(`/api/v1/runs/${encodeURIComponent(run)}/tasks/${encodeURIComponent(task)}/logs`), window.location.origin)
  if (attempt) url.searchParams.set('attempt', String(attempt))
  for (const stream of streamsOf(service) ?? []) url.searchParams.set('stream', stream)
  return url
}

/** streamsOf returns the streams that have the output of a service; without one, those of the task's own log. */
export function streamsOf(service?: string): string[] | undefined {
  return service === undefined ? undefined : [`service:${service}`]
}

interface Opened {
  store: LogStore
  loader: PartLoader
}

/** useLog reads the index of a log of a task or a service, then its end as it grows, and the parts in view when they are wanted. */
export function useLog(run: string, task: string, attempt?: number, service?: string): Log {
  const [opened, setOpened] = useState<Opened>()
  const [indexed, setIndexed] = useState(false)
  const [state, setState] = useState<LogState>({ kind: 'loading' })
  const [, draw] = useReducer((n: number) => n + 1, 0)

  useEffect(() => {
    let frame = 0
    let retry = 0
    let stop: (() => void) | undefined
    const abort = new AbortController()
    // A hidden page draws no frames: it draws once when it is shown.
    const later = throttle(() => {
      frame ||= requestAnimationFrame(() => {
        frame = 0
        draw()
      })
    }, drawMillis)
    const fail = (error: unknown) => {
      setState({ kind: isTemporary(error) ? 'retrying' : 'failed', error })
    }
    const address = logAddress(run, task, attempt, service)
    const store = new LogStore()
    const loader = new PartLoader(
      store,
      ({ offset, length }) => {
        const url = new URL(address)
        for (const [k, v] of Object.entries({ offset, length, timestamps: true })) url.searchParams.set(k, String(v))
        return url.href
      },
      () => {
        setState((old) => (old.kind === 'retrying' ? { kind: 'live' } : old))
        draw()
      },
      fail,
    )
    let cursor: string | undefined
    let failures = 0
    const read = async () => {
      try {
        do {
          const query = { every: partLines, attempt, stream: streamsOf(service), cursor }
          const { data } = await api.GET('/api/v1/runs/{id}/tasks/{task}/logs/index', { signal: abort.signal, params: { path: { id: run, task }, query } })
          store.addIndex(data!)
          failures = 0
          cursor = data!.next
          setOpened({ store, loader })
          later()
        } while (cursor)
      } catch (error) {
        if (abort.signal.aborted) return
        fail(error)
        failures++
        if (isTemporary(error)) retry = window.setTimeout(() => void read(), pauseAfter(failures))
        return
      }
      setIndexed(true)
      stop = follow({
        address,
        offset: () => store.streamed,
        onChunk: (bytes, step, time) => {
          store.add(bytes, step, time)
          later()
        },
        onState: (next) => {
          if (next.kind === 'failed') fail(next.error)
          else setState(next)
        },
      })
    }
    void read()
    return () => {
      abort.abort()
      stop?.()
      loader.close()
      cancelAnimationFrame(frame)
      window.clearTimeout(retry)
      setOpened(undefined)
      setIndexed(false)
      setState({ kind: 'loading' })
    }
  }, [run, task, attempt, service])

  const loader = opened?.loader
  const want = useCallback((first: number, last: number) => loader?.want(first, last), [loader])
  return { store: opened?.store ?? nothing, state, indexed, want }
}

/** nothing stands for a log before its index is read. */
const nothing = new LogStore()
