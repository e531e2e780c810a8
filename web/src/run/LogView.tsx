import Anser from 'anser'
import { memo, useCallback, useEffect, useLayoutEffect, useReducer, useRef, useState } from 'react'

import { api, messageOf, problemOf, type LogChunk, type Problem } from '../api/client'
import { LogStore, partLines } from './log'

const lineHeight = 20
/** The greatest height that all supported browsers scroll; longer logs are scrolled faster. */
const maxHeight = 12_000_000

interface Props {
  run: string
  task: string
  attempt?: number
  /** The line to show first, from 1. */
  line?: number
  onLine: (line: number | undefined) => void
}

/** LogView shows a log of any length: only the lines in view are in the document, and only the parts near them in memory. */
export function LogView({ run, task, attempt, line, onLine }: Props) {
  const store = useRef<LogStore>(undefined)
  const [, draw] = useReducer((n: number) => n + 1, 0)
  const [state, setState] = useState<{ kind: 'open' | 'failed'; text: string }>({ kind: 'open', text: 'loading' })
  const [follow, setFollow] = useState(line === undefined)
  const scroller = useRef<HTMLDivElement>(null)
  const [view, setView] = useState({ top: 0, height: 600 })
  const path = `/api/v1/runs/${encodeURIComponent(run)}/tasks/${encodeURIComponent(task)}/logs`
  const chosen = attempt ? `&attempt=${attempt}` : ''

  useEffect(() => {
    let source: EventSource | undefined
    let frame = 0
    let over = false
    const later = () => {
      frame ||= requestAnimationFrame(() => {
        frame = 0
        draw()
      })
    }
    const open = async () => {
      const { data } = await api.GET('/api/v1/runs/{id}/tasks/{task}/logs/index', { params: { path: { id: run, task }, query: { every: partLines, attempt } } })
      if (over || !data) return
      const log = new LogStore(data)
      store.current = log
      draw()
      source = new EventSource(`${path}?follow=true&offset=${log.liveOffset}${chosen}`)
      source.addEventListener('start', () => setState({ kind: 'open', text: 'live' }))
      source.addEventListener('log', (e: MessageEvent<string>) => {
        const chunk = JSON.parse(e.data) as LogChunk
        log.add(Uint8Array.from(atob(chunk.data), (c) => c.charCodeAt(0)))
        later()
      })
      source.addEventListener('end', () => {
        source?.close()
        setState({ kind: 'open', text: 'complete' })
      })
      source.addEventListener('problem', (e: MessageEvent<string>) => {
        source?.close()
        setState({ kind: 'failed', text: (JSON.parse(e.data) as Problem).detail ?? 'The log is cut off.' })
      })
      source.onerror = () => {
        if (source?.readyState === EventSource.CLOSED) setState({ kind: 'failed', text: 'The log cannot be read: it may have been deleted.' })
        else setState({ kind: 'open', text: 'connection lost, trying again' })
      }
    }
    open().catch((error: unknown) => setState({ kind: 'failed', text: messageOf(error) }))
    return () => {
      over = true
      source?.close()
      cancelAnimationFrame(frame)
    }
  }, [run, task, attempt, path, chosen])

  const count = store.current?.length ?? 0
  const total = count * lineHeight
  const height = Math.min(total, maxHeight)
  // One pixel of the scroll bar is so many pixels of the log.
  const scale = height > view.height ? Math.max(1, (total - view.height) / (height - view.height)) : 1
  const begin = view.top * scale
  const first = Math.max(0, Math.floor(begin / lineHeight) - 20)
  const last = Math.min(count - 1, Math.ceil((begin + view.height) / lineHeight) + 20)

  useEffect(() => {
    const element = scroller.current
    if (!element) return
    const sizes = new ResizeObserver(() => setView({ top: element.scrollTop, height: element.clientHeight }))
    sizes.observe(element)
    return () => sizes.disconnect()
  }, [])

  const goTo = useCallback((target: number) => {
    const element = scroller.current
    if (element) element.scrollTop = Math.max(0, (target - 1) * lineHeight - element.clientHeight / 3) / scale
  }, [scale])

  useLayoutEffect(() => {
    const element = scroller.current
    if (follow && element) element.scrollTop = element.scrollHeight
  }, [follow, count])
  const shown = useRef(false)
  useLayoutEffect(() => {
    if (line === undefined || count === 0 || shown.current) return
    shown.current = true
    goTo(line)
  }, [line, count, goTo])

  useEffect(() => {
    const log = store.current
    if (!log || last < first) return
    const abort = new AbortController()
    for (const { part, offset, length } of log.missing(first, last)) {
      fetch(`${path}?offset=${offset}&length=${length}${chosen}`, { signal: abort.signal, headers: { Accept: 'text/plain' } })
        .then(async (answer) => {
          if (!answer.ok) throw await problemOf(answer)
          log.fill(part, new Uint8Array(await answer.arrayBuffer()))
          draw()
        })
        .catch((error: unknown) => {
          if (!abort.signal.aborted) setState({ kind: 'failed', text: messageOf(error) })
        })
    }
    return () => abort.abort()
  }, [first, last, path, chosen])

  const lines = []
  for (let i = first; i <= last; i++) {
    lines.push(<Line key={i} number={i + 1} top={view.top + i * lineHeight - begin} text={store.current?.at(i)} marked={line === i + 1} onLine={onLine} />)
  }
  return (
    <section className="log" aria-label="Log">
      <div className="bar">
        <span className="status" data-kind={state.kind === 'failed' ? 'failed' : undefined} role="status"><span>{state.text}</span></span>
        <span className="muted">{count.toLocaleString()} lines</span>
        <Search path={path} run={run} task={task} attempt={attempt} onFound={(found) => { setFollow(false); goTo(found); onLine(found) }} />
        <label><input type="checkbox" checked={follow} onChange={(e) => setFollow(e.target.checked)} /> follow</label>
        <a className="button" href={`${path}?download=true${chosen}`}>Download</a>
      </div>
      <div className="lines" ref={scroller} tabIndex={0}
        onScroll={(e) => setView({ top: e.currentTarget.scrollTop, height: e.currentTarget.clientHeight })}
        onWheel={(e) => { if (e.deltaY < 0) setFollow(false) }}
        onKeyDown={(e) => { if (['ArrowUp', 'PageUp', 'Home'].includes(e.key)) setFollow(false) }}>
        <div className="all" ref={(e) => { e?.style.setProperty('height', `${height}px`) }}>{lines}</div>
      </div>
    </section>
  )
}

/** Line shows a line with its colours. Its text is never markup. */
const Line = memo(function Line({ number, top, text, marked, onLine }: { number: number; top: number; text?: string; marked: boolean; onLine: (line: number) => void }) {
  return (
    <div className={marked ? 'line marked' : 'line'} ref={(e) => { e?.style.setProperty('top', `${top}px`) }}>
      <a className="n" href={`?line=${number}`} onClick={(e) => { e.preventDefault(); onLine(number) }}>{number}</a>
      {text === undefined ? <span className="muted">…</span> : text.includes('\u001b') ? colours(text) : text}
    </div>
  )
})

function colours(text: string) {
  return Anser.ansiToJson(text, { json: true, remove_empty: true, use_classes: true }).map((part, i) => (
    <span key={i} className={[part.fg, part.bg && `${part.bg}-bg`, ...part.decorations.map((d) => `ansi-${d}`)].filter(Boolean).join(' ')}>{part.content}</span>
  ))
}

/** Search finds lines of the whole log, also of parts that were never loaded. */
function Search({ run, task, attempt, onFound }: { path: string; run: string; task: string; attempt?: number; onFound: (line: number) => void }) {
  const [found, setFound] = useState<{ text: string; lines: number[]; more: boolean; at: number; error?: string }>()
  const search = async (text: string) => {
    if (found && found.text === text && found.lines.length > 0) {
      const at = (found.at + 1) % found.lines.length
      setFound({ ...found, at })
      onFound(found.lines[at]!)
      return
    }
    try {
      const { data } = await api.GET('/api/v1/runs/{id}/tasks/{task}/logs/search', { params: { path: { id: run, task }, query: { text, attempt } } })
      const lines = data!.matches.map((m) => m.line + 1)
      setFound({ text, lines, more: data!.more, at: 0 })
      if (lines.length > 0) onFound(lines[0]!)
    } catch (error) {
      setFound({ text, lines: [], more: false, at: 0, error: messageOf(error) })
    }
  }
  return (
    <span role="search">
      <input type="search" placeholder="search the log" aria-label="Search the log"
        onKeyDown={(e) => { if (e.key === 'Enter' && e.currentTarget.value) void search(e.currentTarget.value) }} />
      {found && <span className="muted"> {found.error ?? (found.lines.length === 0 ? 'no line' : `${found.at + 1} of ${found.lines.length}${found.more ? '+' : ''}`)}</span>}
    </span>
  )
}
