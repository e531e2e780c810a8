import { Link } from '@tanstack/react-router'
import { useId, useState } from 'react'

import type { Run } from '../api/client'
import { Button } from '../components/Button'
import { Command } from '../components/Command'
import { StatusBadge } from '../components/Status'
import { useRefusal, useSession } from '../lib/session'
import { useRunDialogs } from './Actions'
import { decisionRefusal } from './approval'
import { hintsOf, linesOf, waitsOf, type Hint, type Line } from './explain'
import { LastLines } from './LastLines'
import './Waiting.css'

/** Waiting says in a line for each kind why the run or its tasks wait, or what failed and how its log ends, and on demand all of them and what helps. */
export function Waiting({ run }: { run: Run }) {
  const [open, setOpen] = useState(false)
  const id = useId()
  const session = useSession()
  const lines = linesOf(run, session)
  if (lines.length === 0) return null
  const hints = hintsOf(run, session)
  const failed = lines.find((l) => l.logs)?.logs
  const title = run.phase === 'finished' ? 'What to do next' : 'Why it waits'
  return (
    <section className="waiting" aria-label={title}>
      <div className="waiting-lines">
        <ul>{lines.map((l) => <WaitLine key={`${l.status} ${l.task} ${l.text}`} run={run} line={l} />)}</ul>
        {(run.phase === 'running' || hints.length > 0) && <button aria-expanded={open} aria-controls={id} onClick={() => setOpen(!open)}>{title}</button>}
      </div>
      {failed && <LastLines run={run} name={failed} task={run.tasks![failed]!} />}
      <div id={id} hidden={!open}>{open && <All run={run} hints={hints} />}</div>
    </section>
  )
}

function WaitLine({ run, line: { status, text, task, approve, start, logs } }: { run: Run; line: Line }) {
  const open = useRunDialogs()
  const refusal = useRefusal()
  return (
    <li>
      <StatusBadge kind={status} />
      <span className="waiting-text" title={text}>{task && <Link to="/runs/$id/tasks/$task" params={{ id: run.id, task }}>{task}</Link>} <span className="muted">{text}</span></span>
      {approve && <ApproveButton run={run} tasks={approve} />}
      {start && <Button refusal={refusal('startRun', run.group)} className="primary" onClick={() => open('start')}>Start …</Button>}
      {logs && <Link className="button" to="/runs/$id/tasks/$task" params={{ id: run.id, task: logs }}>Log</Link>}
    </li>
  )
}

function ApproveButton({ run, tasks }: { run: Run; tasks: readonly string[] }) {
  const open = useRunDialogs()
  const session = useSession()
  const mayNot = (task: string) => decisionRefusal(session, 'rejectTask', run.group, run.tasks?.[task]?.approval)
  return (
    <Button refusal={tasks.every(mayNot) ? mayNot(tasks[0]!) : undefined} className="primary" onClick={() => open('decide', { tasks: tasks.filter((t) => !mayNot(t)) })}>
      Approve or reject …
    </Button>
  )
}

/** All has the tasks that wait, each with its reason, and what the user can do about it. */
function All({ run, hints }: { run: Run; hints: Hint[] }) {
  const { waits, more } = waitsOf(run)
  const left = more + Math.max(0, waits.length - 30)
  return (
    <>
      {waits.length > 0 && (
        <ul className="waits">
          {waits.slice(0, 30).map((w) => (
            <li key={w.task}>
              <Link to="/runs/$id/tasks/$task" params={{ id: run.id, task: w.task }}>{w.task}</Link>
              <StatusBadge kind={w.status} />
              <span className="muted">{w.reason}</span>
            </li>
          ))}
          {left > 0 && <li className="muted">and {left} more</li>}
        </ul>
      )}
      <ul className="hints">{hints.map((h) => <HintLine key={h.text} hint={h} />)}</ul>
    </>
  )
}

const pages = {
  '/operations': { label: 'Executors', needs: 'listExecutors' },
  '/operations/pools': { label: 'Pools', needs: 'listPools' },
  '/operations/fleets': { label: 'Fleets', needs: 'listFleets' },
  '/operations/changegroups': { label: 'Change groups', needs: 'listChangeGroups' },
} as const

function HintLine({ hint }: { hint: Hint }) {
  const open = useRunDialogs()
  const refusal = useRefusal()
  return (
    <li>
      <span>{hint.text}</span>
      {hint.action === 'restart-failed' && <Button onClick={() => open('restart')}>Restart …</Button>}
      {hint.page && !refusal(pages[hint.page].needs) && <Link className="button" to={hint.page}>{pages[hint.page].label}</Link>}
      {hint.command && <Command needs={hint.needs} group={hint.group} text={hint.command} />}
    </li>
  )
}
