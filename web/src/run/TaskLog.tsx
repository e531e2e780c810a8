import { useMutation, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useVirtualizer } from '@tanstack/react-virtual'
import Anser from 'anser'
import { memo, useEffect, useRef, useState } from 'react'

import { api, messageOf, type LogChunk, type Problem } from '../api/client'
import { StatusBadge } from '../components/Status'
import { useRun } from '../pages/Run'
import { LogLines } from './log'
import { Took } from './TaskTable'

const route = getRouteApi('/runs/$id/tasks/$task')
const lineHeight = 20
/** How many lines at the end of a log are loaded first. */
const tail = 20_000

/** TaskLog shows one task: what it waits for, and its log as it is written. */
export function TaskLog() {
  const { id, task: name } = route.useParams()
  const run = useRun().data
  const task = run?.tasks?.[name]
  if (!run) return null
  if (!task) return <div className="empty">The run has no task {name}.</div>
  return (
    <>
      <div className="head">
        <div>
          <h2><Link to="/runs/$id/tasks" params={{ id }}>Tasks</Link> / {name}</h2>
          <div className="facts">
            <StatusBadge kind={task.status} />
            {task.attempt > 0 && <span>attempt <b>{task.attempt}</b></span>}
            {task.executor && <span>executor <b>{task.executor}</b></span>}
            {task.exit_code !== undefined && <span>exit code <b>{task.exit_code}</b></span>}
            <span><Took task={task} /></span>
          </div>
          {task.reason && <p className="reason">{task.reason}</p>}
        </div>
        {task.status === 'waiting_approval' && <Approval run={id} task={name} />}
      </div>
      {task.attempt === 0 ? <div className="empty">The task has not begun, so it has no log.</div> : <Log key={`${id}/${name}/${task.attempt}`} run={id} task={name} />}
    </>
  )
}

function Approval({ run, task }: { run: string; task: string }) {
  const queries = useQueryClient()
  const [reason, setReason] = useState('')
  const params = { path: { id: run, task } }
  const decide = useMutation({
    mutationFn: async (approved: boolean) => {
      if (approved) await api.POST('/api/v1/runs/{id}/tasks/{task}/approve', { params, body: {} })
      else await api.POST('/api/v1/runs/{id}/tasks/{task}/reject', { params, body: { reason } })
    },
    onSettled: () => queries.invalidateQueries({ queryKey: ['run', run] }),
  })
  return (
    <form className="actions" onSubmit={(e) => e.preventDefault()}>
      <button className="primary" onClick={() => decide.mutate(true)}>Approve</button>
      <input aria-label="Reason of a rejection" placeholder="reason of a rejection" value={reason} onChange={(e) => setReason(e.target.value)} />
      <button className="danger" disabled={reason === ''} onClick={() => decide.mutate(false)}>Reject</button>
      {decide.error && <span role="alert">{messageOf(decide.error)}</span>}
    </form>
  )
}

function Log({ run, task }: { run: string; task: string }) {
  const lines = useRef(new LogLines())
  const [version, setVersion] = useState(0)
  const [state, setState] = useState<{ kind: 'open' | 'complete' | 'failed'; text: string }>({ kind: 'open', text: 'loading' })
  const [follow, setFollow] = useState(true)
  const scroller = useRef<HTMLDivElement>(null)
  const path = `/api/v1/runs/${encodeURIComponent(run)}/tasks/${encodeURIComponent(task)}/logs`

  useEffect(() => {
    lines.current = new LogLines()
    const source = new EventSource(`${path}?follow=true&tail=${tail}`)
    const decoder = new TextDecoder()
    let frame = 0
    const draw = () => {
      frame ||= requestAnimationFrame(() => {
        frame = 0
        setVersion((v) => v + 1)
      })
    }
    source.addEventListener('start', () => setState({ kind: 'open', text: 'live' }))
    source.addEventListener('log', (e: MessageEvent<string>) => {
      const chunk = JSON.parse(e.data) as LogChunk
      lines.current.add(decoder.decode(Uint8Array.from(atob(chunk.data), (c) => c.charCodeAt(0)), { stream: true }))
      draw()
    })
    source.addEventListener('end', () => {
      source.close()
      setState({ kind: 'complete', text: 'complete' })
    })
    source.addEventListener('problem', (e: MessageEvent<string>) => {
      source.close()
      setState({ kind: 'failed', text: (JSON.parse(e.data) as Problem).detail ?? 'The log is cut off.' })
    })
    source.onerror = () => {
      if (source.readyState === EventSource.CLOSED) setState({ kind: 'failed', text: 'The log cannot be read: it may have been deleted.' })
      else setState({ kind: 'open', text: 'connection lost, trying again' })
    }
    return () => {
      source.close()
      cancelAnimationFrame(frame)
    }
  }, [path])

  const count = lines.current.length
  const rows = useVirtualizer({ count, getScrollElement: () => scroller.current, estimateSize: () => lineHeight, overscan: 30 })
  useEffect(() => {
    if (follow && count > 0) rows.scrollToIndex(count - 1, { align: 'end' })
  }, [version, follow, count, rows])
  const dropped = lines.current.dropped
  return (
    <section className="log" aria-label="Log">
      <div className="bar">
        <span className={state.kind === 'failed' ? 'status' : 'muted'} data-kind={state.kind === 'failed' ? 'failed' : undefined} role="status">{state.text}</span>
        <span className="muted">{count.toLocaleString()} lines{dropped > 0 && `, without the first ${dropped.toLocaleString()}`}</span>
        <label><input type="checkbox" checked={follow} onChange={(e) => setFollow(e.target.checked)} /> follow</label>
        <a className="button" href={`${path}?download=true`}>Download</a>
      </div>
      <div className="lines" ref={scroller} tabIndex={0}
        onWheel={(e) => { if (e.deltaY < 0) setFollow(false) }}
        onKeyDown={(e) => { if (['ArrowUp', 'PageUp', 'Home'].includes(e.key)) setFollow(false) }}>
        <div ref={(e) => { e?.style.setProperty('height', `${rows.getTotalSize()}px`); e?.style.setProperty('position', 'relative') }}>
          {rows.getVirtualItems().map((item) => <Line key={item.index} number={dropped + item.index + 1} start={item.start} text={lines.current.at(item.index)} />)}
        </div>
      </div>
    </section>
  )
}

/** Line shows a line with its colours. Its text is never markup. */
const Line = memo(function Line({ number, start, text }: { number: number; start: number; text: string }) {
  return (
    <div className="line" ref={(e) => { e?.style.setProperty('top', `${start}px`) }}>
      <span className="n">{number}</span>
      {text.includes('\u001b') ? Anser.ansiToJson(text, { json: true, remove_empty: true, use_classes: true }).map((part, i) => (
        <span key={i} className={[part.fg, part.bg && `${part.bg}-bg`, ...part.decorations.map((d) => `ansi-${d}`)].filter(Boolean).join(' ')}>{part.content}</span>
      )) : text}
    </div>
  )
})
