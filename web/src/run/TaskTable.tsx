import { Link } from '@tanstack/react-router'
import { useVirtualizer } from '@tanstack/react-virtual'
import { useDeferredValue, useMemo, useRef, useState } from 'react'

import type { Status, Task } from '../api/client'
import { StatusBadge } from '../components/Status'
import { statusLabels, statusOrder } from '../lib/status'
import { between, duration, useNow } from '../lib/time'
import { useRun } from '../pages/Run'

/** TasksTab lists the tasks; only the rows in view are in the document. */
export function TasksTab() {
  const run = useRun().data
  const [search, setSearch] = useState('')
  const [status, setStatus] = useState<Status | ''>('')
  const wanted = useDeferredValue(search)
  const tasks = useMemo(() => {
    const needle = wanted.toLowerCase()
    return Object.entries(run?.tasks ?? {})
      .filter(([name, t]) => (!status || t.status === status) && (!needle || name.toLowerCase().includes(needle) || t.reason.toLowerCase().includes(needle)))
      .sort(([, a], [, b]) => a.number - b.number)
  }, [run?.tasks, wanted, status])
  const scroller = useRef<HTMLDivElement>(null)
  const rows = useVirtualizer({ count: tasks.length, getScrollElement: () => scroller.current, estimateSize: () => 36, overscan: 12 })
  if (!run) return null
  return (
    <>
      <div className="filters">
        <input type="search" placeholder="task or reason" aria-label="Search tasks" value={search} onChange={(e) => setSearch(e.target.value)} />
        <select aria-label="Status" value={status} onChange={(e) => setStatus(e.target.value as Status | '')}>
          <option value="">every status</option>
          {statusOrder.map((s) => <option key={s} value={s}>{statusLabels[s]}</option>)}
        </select>
        <span className="muted">{tasks.length} tasks</span>
      </div>
      <div className="rows" ref={scroller} role="table" aria-rowcount={tasks.length} tabIndex={0}>
        <div className="row header" role="row">
          {['Task', 'Status', 'Reason', 'Executor', 'Duration'].map((h) => <span key={h} role="columnheader">{h}</span>)}
        </div>
        <div ref={(e) => { e?.style.setProperty('height', `${rows.getTotalSize()}px`); e?.style.setProperty('position', 'relative') }}>
          {rows.getVirtualItems().map((item) => {
            const [name, task] = tasks[item.index]!
            return (
              <div key={name} className="row" role="row" aria-rowindex={item.index + 1}
                ref={(e) => { e?.style.setProperty('transform', `translateY(${item.start}px)`); e?.style.setProperty('position', 'absolute'); e?.style.setProperty('width', '100%') }}>
                <span role="cell"><Link to="/runs/$id/tasks/$task" params={{ id: run.id, task: name }}>{name}</Link></span>
                <span role="cell"><StatusBadge kind={task.status} /></span>
                <span role="cell" className="muted" title={task.reason}>{task.reason}</span>
                <span role="cell" className="muted">{task.executor}</span>
                <span role="cell"><Took task={task} /></span>
              </div>
            )
          })}
        </div>
      </div>
    </>
  )
}

export function Took({ task }: { task: Task }) {
  const now = useNow()
  const took = between(task.started_at, task.ended_at, now)
  return <>{took !== undefined && duration(took)}</>
}
