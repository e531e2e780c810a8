import { Link } from '@tanstack/react-router'
import type { Run } from '../api/client'
import { Button } from '../components/Button'
import { Command } from '../components/Command'
import { StatusBadge } from '../components/Status'
import { useRefusal, useSession } from '../lib/session'
import { useRunDialogs } from './Actions'
import { decisionRefusal } from './approval'
import { hintsOf, waitsOf, type Hint } from './explain'
import './Waiting.css'

/** Waiting says why the run or its tasks wait, and what helps. It is open if that is what the page is about, and it needs the user. */
export function Waiting({ run, open }: { run: Run; open: boolean }) {
  const { waits, more } = waitsOf(run)
  const hints = hintsOf(run)
  if (waits.length === 0 && hints.length === 0) return null
  const title = run.phase === 'finished' ? 'What to do next' : 'Why it waits'
  // A run that only works off its graph needs no user: the reasons are there, but do not take the page.
  const urgent = hints.length > 0
  return (
    <details className="waiting" open={open && urgent}>
      <summary>{title} <span className="muted">{summary(run, waits.length + more)}</span></summary>
      {waits.length > 0 && (
        <ul className="waits">
          {waits.slice(0, 30).map((w) => (
            <li key={w.task}>
              <Link to="/runs/$id/tasks/$task" params={{ id: run.id, task: w.task }}>{w.task}</Link>
              <StatusBadge kind={w.status} />
              <span className="muted">{w.reason}</span>
            </li>
          ))}
          {more + Math.max(0, waits.length - 30) > 0 && <li className="muted">and {more + Math.max(0, waits.length - 30)} more</li>}
        </ul>
      )}
      {hints.length > 0 && <ul className="hints">{hints.map((h) => <HintLine key={h.text} run={run} hint={h} />)}</ul>}
    </details>
  )
}

function summary(run: Run, tasks: number): string {
  if (run.phase === 'queued') return run.reason
  return tasks === 0 ? '' : tasks === 1 ? '1 task' : `${tasks} tasks`
}

const pages = {
  '/operations': { label: 'Executors', needs: 'listExecutors' },
  '/operations/pools': { label: 'Pools', needs: 'listPools' },
  '/operations/fleets': { label: 'Fleets', needs: 'listFleets' },
  '/operations/changegroups': { label: 'Change groups', needs: 'listChangeGroups' },
} as const

function HintLine({ run, hint }: { run: Run; hint: Hint }) {
  const open = useRunDialogs()
  const refusal = useRefusal()
  const session = useSession()
  const mayNot = (task: string) => decisionRefusal(session, 'rejectTask', run.group, run.tasks?.[task]?.approval)
  return (
    <li>
      <span>{hint.text}</span>
      {hint.approve && <Button refusal={hint.approve.every(mayNot) ? mayNot(hint.approve[0]!) : undefined} className="primary" onClick={() => open('decide', { tasks: hint.approve!.filter((t) => !mayNot(t)) })}>Approve or reject …</Button>}
      {hint.action === 'start' && <Button refusal={refusal('startRun', run.group)} className="primary" onClick={() => open('start')}>Start …</Button>}
      {hint.action === 'restart-failed' && <Button refusal={refusal('restartRun', run.group)} onClick={() => open('restart')}>Restart …</Button>}
      {hint.logs && <Link className="button" to="/runs/$id/tasks/$task" params={{ id: run.id, task: hint.logs }}>Log</Link>}
      {hint.page && !refusal(pages[hint.page].needs) && <Link className="button" to={hint.page}>{pages[hint.page].label}</Link>}
      {hint.command && <Command text={hint.command} />}
    </li>
  )
}
