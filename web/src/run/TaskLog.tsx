import { getRouteApi, Link, useLocation } from '@tanstack/react-router'
import { useCallback, useMemo } from 'react'

import { StatusBadge } from '../components/Status'
import { kindOf } from '../lib/status'
import { useRun } from '../pages/Run'
import { LogView } from './log/LogView'
import { formatRange, parseRange, type Range } from './log/range'
import { TaskActions, TaskFacts } from './TaskFacts'
import { Took } from './TaskTable'

const route = getRouteApi('/runs/$id/tasks/$task')

/** TaskLog shows one task: what it waits for, and its log as it is written. */
export function TaskLog() {
  const { id, task: name } = route.useParams()
  const { attempt, line, service } = route.useSearch()
  const navigate = route.useNavigate()
  const hash = useLocation({ select: (l) => l.hash })
  const range = useMemo(() => parseRange(hash) ?? (line ? { first: line, last: line } : undefined), [hash, line])
  const onRange = useCallback(
    (range: Range) => void navigate({ search: (old) => ({ ...old, line: undefined }), hash: formatRange(range), replace: true, resetScroll: false, hashScrollIntoView: false }),
    [navigate],
  )
  const onService = useCallback((service?: string) => void navigate({ search: (old) => ({ ...old, line: undefined, service }), hash: '' }), [navigate])
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
            <StatusBadge kind={kindOf(task)} />
            {task.attempt > 0 && <Attempts newest={task.attempt} chosen={attempt} choose={(attempt) => void navigate({ search: { attempt }, hash: '' })} />}
            {task.executor && <span>executor <b>{task.executor}</b></span>}
            {task.exit_code !== undefined && <span>exit code <b>{task.exit_code}</b></span>}
            <span><Took task={task} /></span>
          </div>
          {task.reason && <p className="reason">{task.reason}</p>}
        </div>
        <TaskActions run={run} name={name} task={task} />
      </div>
      <TaskFacts run={run} name={name} task={task} />
      {task.attempt === 0
        ? <div className="empty">The task has not begun, so it has no log.</div>
        : <LogView key={`${id}/${name}/${attempt ?? task.attempt}/${service ?? ''}`} run={id} name={name} task={task} attempt={attempt} service={service}
            onService={onService} range={range} onRange={onRange} />}
    </>
  )
}

function Attempts({ newest, chosen, choose }: { newest: number; chosen?: number; choose: (attempt?: number) => void }) {
  if (newest === 1) return <span>attempt <b>1</b></span>
  return (
    <label>
      attempt{' '}
      <select value={chosen ?? newest} onChange={(e) => choose(Number(e.target.value) === newest ? undefined : Number(e.target.value))}>
        {Array.from({ length: newest }, (_, i) => newest - i).slice(0, 100).map((n) => <option key={n}>{n}</option>)}
      </select>{' '}
      of <b>{newest}</b>
    </label>
  )
}
