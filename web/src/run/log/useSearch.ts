import { useCallback, useEffect, useRef, useState } from 'react'

import { api } from '../../api/client'
import { messageOf } from '../../api/problem'
import { streamsOf } from './useLog'

/** The most lines that are kept of a search. */
const most = 10_000

export interface Found {
  text: string
  /** The lines that have the text, from 0, ascending. */
  lines: number[]
  /** Which of them the reader is at, from 0; -1 for none. */
  at: number
  /** The server still searches. */
  busy: boolean
  /** The search ended at the bound. */
  more: boolean
  error?: string
}

export interface Search {
  found?: Found
  /** next goes to the next line that has the text, or with back to the one before; of another text, it searches first. */
  next: (text: string, back: boolean) => void
  clear: () => void
}

/** useSearch finds lines of the whole log on the server, a part of the log at a time. */
export function useSearch(run: string, task: string, attempt: number | undefined, service: string | undefined, topLine: () => number, goTo: (line: number) => void): Search {
  const [found, setFound] = useState<Found>()
  const abort = useRef<AbortController>(undefined)
  useEffect(() => () => abort.current?.abort(), [])

  const search = useCallback(async (text: string, back: boolean) => {
    abort.current?.abort()
    const { signal } = (abort.current = new AbortController())
    const from = topLine()
    const lines: number[] = []
    let at = -1
    const show = (more: Partial<Found>) => setFound((old) => {
      // The reader may have gone on since the first line was found.
      const moved = old?.text === text && old.at >= 0 && at >= 0 ? old.at : at
      return { text, lines, at: moved, busy: true, more: false, ...more }
    })
    const choose = (over: boolean) => {
      if (at >= 0 || lines.length === 0) return
      const after = lines.findIndex((l) => l >= from)
      if (back) {
        if (after < 0 && !over) return
        at = (after < 0 ? lines.length : after) - 1
        if (at < 0 && !over) return
        if (at < 0) at = lines.length - 1
      } else {
        if (after < 0 && !over) return
        at = Math.max(0, after)
      }
      goTo(lines[at]!)
    }
    show({})
    try {
      let cursor: string | undefined
      do {
        const query = { text, attempt, stream: streamsOf(service), cursor }
        const { data } = await api.GET('/api/v1/runs/{id}/tasks/{task}/logs/search', { signal, params: { path: { id: run, task }, query } })
        for (const m of data!.matches) lines.push(m.line)
        cursor = data!.next
        choose(!cursor)
        show({})
      } while (cursor && lines.length < most)
      choose(true)
      show({ busy: false, more: !!cursor })
    } catch (error) {
      if (!signal.aborted) show({ busy: false, error: messageOf(error) })
    }
  }, [run, task, attempt, service, topLine, goTo])

  const next = useCallback((text: string, back: boolean) => {
    if (text === '') return
    if (found?.text !== text || found.error) {
      void search(text, back)
      return
    }
    const n = found.lines.length
    if (n === 0) return
    const at = (found.at + (back ? -1 : 1) + n) % n
    setFound({ ...found, at })
    goTo(found.lines[at]!)
  }, [found, search, goTo])

  const clear = useCallback(() => {
    abort.current?.abort()
    setFound(undefined)
  }, [])
  return { found, next, clear }
}
