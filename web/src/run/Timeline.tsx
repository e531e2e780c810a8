import { useNavigate } from '@tanstack/react-router'
import { useVirtualizer } from '@tanstack/react-virtual'
import { memo, useEffect, useMemo, useRef, useState } from 'react'

import type { Run } from '../api/client'
import { below } from '../lib/base'
import { kindOf, statusLabels, statusSigns } from '../lib/status'
import { duration, timestamp, useNow, useZone } from '../lib/time'
import { useRun } from '../pages/Run'
import type { Tasks } from './graph/graph'
import { shortNames } from './names'
import { approvalsOf, criticalPath, partLabels, partsOf, rowsOf, tickLabel, ticksOf, type PartKind, type Row } from './timeline'
import './timeline.css'

const none: Tasks = {}
const rowHeight = 28
const legend: readonly PartKind[] = ['approval', 'slots', 'queue', 'prepare', 'step', 'transfer', 'cleanup']

/** TimelineTab shows what took the time of the run. */
export function TimelineTab() {
  const run = useRun().data
  if (!run) return null
  if (!run.started_at) return <div className="empty">The run has not started: no task has been queued yet.</div>
  return <Timeline run={run} begin={Date.parse(run.started_at)} />
}

function Timeline({ run, begin }: { run: Run; begin: number }) {
  const clock = useNow()
  const now = run.ended_at ? Date.parse(run.ended_at) : Math.max(clock, begin)
  const tasks = run.tasks ?? none
  const [onlyCritical, setOnlyCritical] = useState(false)
  const [scale, setScale] = useState(1)
  const [chosen, setChosen] = useState<string>()
  const zone = useZone()

  const path = useMemo(() => criticalPath(tasks, now), [tasks, now])
  const critical = useMemo(() => new Set(path), [path])
  const all = useMemo(() => rowsOf(tasks, now, begin, approvalsOf(run)), [tasks, now, begin, run])
  const short = useMemo(() => shortNames(all.map((r) => r.name)), [all])
  const rows = useMemo(() => (onlyCritical ? all.filter((r) => critical.has(r.name)) : all), [all, critical, onlyCritical])
  const length = Math.max(1, all.reduce((end, r) => Math.max(end, r.to), now) - begin)

  const scroller = useRef<HTMLDivElement>(null)
  const width = useWidth(scroller)
  const longest = useMemo(() => all.reduce((most, r) => Math.max(most, (short.get(r.name) ?? r.name).length), 0), [all, short])
  const names = width < 560 ? 120 : Math.round(Math.min(Math.max(240, 8 * longest + 60), 0.4 * width))
  const track = Math.max(200, (width - names - 20) * scale)
  const virtual = useVirtualizer({ count: rows.length, getScrollElement: () => scroller.current, estimateSize: () => rowHeight, overscan: 12 })
  const row = rows.find((r) => r.name === chosen)
  const left = Object.keys(tasks).length - all.length

  /** rescale keeps the time in the middle where it is. */
  const rescale = (factor: number) => {
    const element = scroller.current
    const next = Math.min(64, Math.max(1, scale * factor))
    if (!element || next === scale) return
    const room = (element.clientWidth - names) / 2
    const middle = (element.scrollLeft + room) * (next / scale) - room
    setScale(next)
    requestAnimationFrame(() => { element.scrollLeft = middle })
  }
  return (
    <section className="timeline" aria-label="Timeline">
      <div className="timeline-bar">
        <Summary path={path} rows={all} />
        <label><input type="checkbox" checked={onlyCritical} onChange={(e) => setOnlyCritical(e.target.checked)} /> critical path only</label>
        <span className="timeline-tools">
          <button aria-label="Zoom out" onClick={() => rescale(0.5)} disabled={scale === 1}>−</button>
          <button aria-label="Zoom in" onClick={() => rescale(2)} disabled={scale === 64}>+</button>
        </span>
      </div>
      <ul className="timeline-legend" aria-label="Colours">
        {legend.map((kind) => <li key={kind}><i className="part" data-part={kind} aria-hidden="true" />{partLabels[kind]}</li>)}
        <li><i className="timeline-mark" aria-hidden="true">◆</i>critical path</li>
        {left > 0 && <li>{left.toLocaleString()} {left === 1 ? 'task has' : 'tasks have'} not been queued</li>}
      </ul>
      <div className="timeline-rows" ref={scroller} role="list" aria-label="Tasks by time">
        <div className="timeline-axis" style={{ width: names + track }} aria-hidden="true">
          <span style={{ width: names }}>{timestamp(run.started_at, zone).slice(names < 200 ? -8 : 0)}</span>
          <div style={{ width: track }}>
            {ticksOf(length, track / 110).map((at) => <i key={at} style={{ left: `${(100 * at) / length}%` }} title={timestamp(new Date(begin + at).toISOString(), zone)}>{tickLabel(at)}</i>)}
          </div>
        </div>
        <div className="timeline-lanes" style={{ height: virtual.getTotalSize(), width: names + track }}>
          {virtual.getVirtualItems().map((item) => {
            const of = rows[item.index]!
            return (
              <div key={of.name} role="listitem" aria-setsize={rows.length} aria-posinset={item.index + 1} className="lane" data-chosen={of.name === chosen || undefined}
                style={{ transform: `translateY(${item.start}px)`, height: rowHeight, gridTemplateColumns: `${names}px ${track}px` }}
                onPointerEnter={() => setChosen(of.name)} onFocus={() => setChosen(of.name)}>
                <Lane run={run.id} row={of} label={short.get(of.name) ?? of.name} begin={begin} length={length} critical={critical.has(of.name)} />
              </div>
            )
          })}
        </div>
      </div>
      <Details row={row} begin={begin} critical={row !== undefined && critical.has(row.name)} />
    </section>
  )
}

interface LaneProps {
  run: string
  row: Row
  label: string
  begin: number
  length: number
  critical: boolean
}

/** Lane is the row of a task. An ended task of an ended run is drawn once. */
const Lane = memo(function Lane({ run, row, label, begin, length, critical }: LaneProps) {
  const navigate = useNavigate()
  const { name, task } = row
  const share = (millis: number) => `${(100 * millis) / length}%`
  return (
    <>
      <a href={below(`/runs/${encodeURIComponent(run)}/tasks/${encodeURIComponent(name)}`)} data-kind={kindOf(task)} data-critical={critical || undefined}
        aria-label={`${label}: ${statusLabels[kindOf(task)]}, ${duration(row.to - row.from)}${critical ? ', on the critical path' : ''}`}
        onClick={(e) => {
          if (e.ctrlKey || e.metaKey || e.shiftKey) return
          e.preventDefault()
          void navigate({ to: '/runs/$id/tasks/$task', params: { id: run, task: name } })
        }}>
        <i aria-hidden="true">{statusSigns[kindOf(task)]}</i>
        <span title={name}>{label}</span>
        {critical && <i className="timeline-mark" aria-hidden="true">◆</i>}
      </a>
      <div className="track">
        {partsOf(row).map((part, i) => (
          <i key={i} className="part" data-part={part.kind} data-failed={part.failed} style={{ left: share(part.from - begin), width: share(part.to - part.from) }} />
        ))}
        {critical && <i className="critical" style={{ left: share(row.from - begin), width: share(row.to - row.from) }} />}
      </div>
    </>
  )
}, (a, b) => a.run === b.run && a.row.task === b.row.task && a.label === b.label && a.row.to === b.row.to && a.begin === b.begin && a.length === b.length && a.critical === b.critical)

/** Summary says how long the critical path took, and how much of that its tasks waited. */
function Summary({ path, rows }: { path: readonly string[]; rows: readonly Row[] }) {
  if (path.length === 0) return <span />
  const byName = new Map(rows.map((r) => [r.name, r]))
  let queued = 0
  let approval = 0
  for (const name of path) {
    const row = byName.get(name)
    if (row) for (const part of partsOf(row)) {
      if (part.kind === 'queue') queued += part.to - part.from
      if (part.kind === 'approval') approval += part.to - part.from
    }
  }
  const first = byName.get(path[0]!)
  const last = byName.get(path.at(-1)!)
  return (
    <span className="timeline-summary">
      Critical path: <b>{path.length.toLocaleString()} {path.length === 1 ? 'task' : 'tasks'}</b>
      {first && last && <>, <b>{duration(last.to - first.from)}</b>, of which <b>{duration(queued)}</b> in the queue</>}
      {approval > 0 && <>, <b>{duration(approval)}</b> for an approval</>}
    </span>
  )
}

/** Details has the times of the row under the pointer or with the focus. */
function Details({ row, begin, critical }: { row?: Row; begin: number; critical: boolean }) {
  const zone = useZone()
  if (!row) return <div className="timeline-details muted">Point at a task, or move to it with Tab, to see its times.</div>
  const { name, task } = row
  return (
    <div className="timeline-details" role="status">
      <p>
        <b>{name}</b> <span>{statusLabels[kindOf(task)]}</span>
        {task.attempt > 1 && <span>attempt {task.attempt}</span>}
        {task.executor && <span>on {task.executor}</span>}
        {critical && <span>◆ on the critical path</span>}
        <span>{task.queued_at ? 'queued' : 'since'} {timestamp(new Date(row.from).toISOString(), zone)}</span>
        {task.reason && <span className="muted">{task.reason}</span>}
      </p>
      <ol>
        {partsOf(row).slice(0, 40).map((part, i) => (
          <li key={i}><i className="part" data-part={part.kind} data-failed={part.failed} aria-hidden="true" />
            {part.step ?? partLabels[part.kind]} <b>{duration(part.to - part.from)}</b> <span className="muted">at {tickLabel(Math.max(0, Math.round((part.from - begin) / 100) * 100))}</span></li>
        ))}
      </ol>
    </div>
  )
}

function useWidth(element: React.RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(960)
  useEffect(() => {
    if (!element.current) return
    const sizes = new ResizeObserver(([entry]) => { if (entry) setWidth(entry.contentRect.width) })
    sizes.observe(element.current)
    return () => sizes.disconnect()
  }, [element])
  return width
}
