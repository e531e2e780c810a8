import { getRouteApi, Link } from '@tanstack/react-router'
import { useDeferredValue, useMemo } from 'react'

import type { Task } from '../api/client'
import { StatusBadge } from '../components/Status'
import { VirtualRows } from '../components/VirtualRows'
import { counted } from '../lib/counted'
import { countTasks, kindOf, statusLabels, statusOrder, type Kind } from '../lib/status'
import { between, duration, useNow } from '../lib/time'
import { useRun } from '../pages/Run'
import '../runs/runs.css'
import { shortNames } from './names'
import { rowsOf, type TaskFilters, type TaskRow } from './tasks'

const route = getRouteApi('/runs/$id/tasks')

/** TasksTab lists the tasks; only the rows in view are in the document. */
export function TasksTab() {
  const run = useRun().data
  const filters = route.useSearch()
  const navigate = route.useNavigate()
  const wanted = useDeferredValue(filters)
  const now = useSortTime(wanted.sort)
  const rows = useMemo(() => rowsOf(run?.tasks ?? {}, wanted, now), [run?.tasks, wanted, now])
  const short = useMemo(() => shortNames(Object.keys(run?.tasks ?? {})), [run?.tasks])
  const counts = useMemo(() => countTasks(Object.values(run?.tasks ?? {})), [run?.tasks])
  if (!run) return null
  const change = (next: TaskFilters) => void navigate({ search: (old) => ({ ...old, ...next }), replace: true })
  const total = Object.keys(run.tasks ?? {}).length
  return (
    <>
      <div className="filters" role="search" aria-label="Filters of the tasks">
        <input type="search" placeholder="task, reason, executor or pool" aria-label="Search tasks" defaultValue={filters.search} onChange={(e) => change({ search: e.target.value || undefined })} />
        <div role="group" aria-label="Status" className="chips">
          {statusOrder.filter((s) => counts[s] || filters.status?.includes(s)).map((s) => (
            <button key={s} aria-pressed={filters.status?.includes(s) ?? false} onClick={() => change({ status: toggled(filters.status, s) })}>{statusLabels[s]} {counts[s] ?? 0}</button>
          ))}
        </div>
        <span className="muted" role="status">{rows.length === total ? counted(total, 'task') : `${rows.length} of ${counted(total, 'task')}`}</span>
      </div>
      {rows.length === 0
        ? <div className="empty">{total === 0 ? 'The run has no tasks.' : 'No task matches the filters.'}</div>
        : (
          <VirtualRows<TaskRow>
            label="Tasks" rows={rows} keyOf={(r) => r.name} sort={filters.sort ?? 'number'} onSort={(sort) => change({ sort: sort === 'number' ? undefined : sort })}
            columns={[
              { title: '#', width: '44px', wide: true, sort: 'number', cell: (r) => <span className="muted">{r.task.number}</span> },
              { title: 'Task', width: 'minmax(0, 2fr)', sort: 'name', cell: (r) => <Link to="/runs/$id/tasks/$task" params={{ id: run.id, task: r.name }} title={r.name}>{short.get(r.name) ?? r.name}</Link> },
              { title: 'Status', width: '160px', sort: 'status', cell: (r) => <StatusBadge kind={kindOf(r.task)} /> },
              { title: 'Reason', width: 'minmax(0, 3fr)', wide: true, cell: (r) => <span className="muted" title={r.task.reason}>{r.task.reason}</span> },
              { title: 'Executor', width: 'minmax(0, 1fr)', wide: true, sort: 'executor', cell: (r) => <span className="muted" title={r.task.executor}>{r.task.executor}</span> },
              { title: 'Attempt', width: '64px', wide: true, cell: (r) => (r.task.attempt > 1 ? r.task.attempt : '') },
              { title: 'Duration', width: '100px', wide: true, sort: 'duration', cell: (r) => <Took task={r.task} /> },
            ]}
          />
        )}
    </>
  )
}

/** useSortTime is the time that running tasks are sorted by. It stands still where it does not matter. */
function useSortTime(sort: string | undefined): number {
  const now = useNow()
  return sort?.endsWith('duration') ? now - (now % 5000) : 0
}

function toggled(list: readonly Kind[] | undefined, status: Kind): Kind[] | undefined {
  const next = list?.includes(status) ? list.filter((s) => s !== status) : [...(list ?? []), status]
  return next.length > 0 ? next : undefined
}

export function Took({ task }: { task: Task }) {
  const now = useNow()
  const took = between(task.started_at, task.ended_at, now)
  return <>{took !== undefined && duration(took)}</>
}
