import { getRouteApi, Link } from '@tanstack/react-router'

import { StatusBadge } from '../components/Status'
import { useRun } from '../pages/Run'
import { LogView } from './LogView'
import { TaskActions, TaskFacts } from './TaskFacts'
import { Took } from './TaskTable'

const route = getRouteApi('/runs/$id/tasks/$task')

/** TaskLog shows one task: what it waits for, and its log as it is written. */
export function TaskLog() {
  const { id, task: name } = route.useParams()
  const { attempt, line } = route.useSearch()
  const navigate = route.useNavigate()
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
        <TaskActions run={run} name={name} task={task} />
      </div>
      <TaskFacts run={run} name={name} task={task} />
      {task.attempt === 0 ? <div className="empty">The task has not begun, so it has no log.</div> : <LogView key={`${id}/${name}/${attempt ?? task.attempt}`} run={id} task={name} attempt={attempt} line={line} onLine={(line) => void navigate({ search: (old) => ({ ...old, line }), replace: true })} />}
    </>
  )
}
