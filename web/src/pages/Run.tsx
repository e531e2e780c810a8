import { useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link, Outlet, useParams } from '@tanstack/react-router'
import { useEffect } from 'react'

import type { Run } from '../api/client'
import { deletions } from '../api/retry'
import { loadRun } from '../api/run'
import { Failed, Loaded } from '../components/Loaded'
import { Meter, StatusBadge } from '../components/Status'
import { countTasks, outcome } from '../lib/status'
import { between, duration, timestamp, useNow, useZone } from '../lib/time'
import { Actions, RunDialogs } from '../run/Actions'
import { actorOf, lastActors, verbOf } from '../run/actors'
import { TemporalLink } from '../run/TemporalLink'
import { Waiting } from '../run/Waiting'

const route = getRouteApi('/runs/$id')

export function useRun() {
  const { id } = route.useParams()
  const queries = useQueryClient()
  return useQuery({
    queryKey: ['run', id],
    queryFn: ({ signal }) => loadRun(id, queries.getQueryData(['run', id]), signal),
    structuralSharing: false, // loadRun shares the tasks that did not change, at less cost
    ...deletions,
  })
}

export function RunPage() {
  const query = useRun()
  const run = query.data
  const { task } = useParams({ strict: false })
  const title = run && `${run.name} #${run.counter} · Drover`
  useEffect(() => {
    if (title) document.title = title
    return () => { document.title = 'Drover' }
  }, [title])
  if (!run) return <Loaded query={query} loading="Loading the run …">{() => null}</Loaded>
  return (
    <RunDialogs run={run}>
      <div className="run">
        <Failed query={query} />
        <Head run={run} />
        {(task === undefined || run.tasks?.[task]?.status === 'queued') && <Waiting run={run} />}
        <nav className="tabs" aria-label="Views of the run">
          <Link to="/runs/$id" params={{ id: run.id }} activeOptions={{ exact: true }}>Graph</Link>
          <Link to="/runs/$id/timeline" params={{ id: run.id }}>Timeline</Link>
          <Link to="/runs/$id/tasks" params={{ id: run.id }}>Tasks and logs</Link>
          <Link to="/runs/$id/results" params={{ id: run.id }}>Results{run.tests?.failed ? <> <span className="tab-count">{run.tests.failed} failed</span></> : null}</Link>
          <Link to="/runs/$id/spec" params={{ id: run.id }}>Specification</Link>
          <Link to="/runs/$id/details" params={{ id: run.id }}>Details</Link>
        </nav>
        <Outlet />
      </div>
    </RunDialogs>
  )
}

function Head({ run }: { run: Run }) {
  const now = useNow()
  const zone = useZone()
  const { kind, label } = outcome(run)
  const failedTests = run.tests?.failed ? `${run.tests.failed.toLocaleString('en')} of ${run.tests.tests.toLocaleString('en')} tests failed` : undefined
  const took = between(run.started_at, run.ended_at, now)
  return (
    <header>
      <div className="head">
        <div>
          <h1>{run.name} <span className="muted">#{run.counter}</span></h1>
          <div className="facts">
            <StatusBadge kind={kind} label={label} />
            <span className="mono"><Link to="/runs" search={{ group: run.group }}>{run.group}</Link></span>
            <span>created <b>{timestamp(run.created_at, zone)}</b>{run.created_by && <> by <b>{run.created_by}</b></>}</span>
            {lastActors(run).map((a) => <span key={a.action}>{verbOf(a.action)} by <b>{actorOf(a.actor)}</b></span>)}
            {took !== undefined && <span>{run.ended_at ? 'took' : 'running for'} <b>{duration(took)}</b></span>}
            {run.restarted_from && <span>restart of <Link to="/runs/$id" params={{ id: run.restarted_from }}>{run.restarted_from}</Link></span>}
            <TemporalLink run={run.id} />
            {failedTests && <Link to="/runs/$id/results" params={{ id: run.id }}><StatusBadge kind={run.result === 'success' ? 'warnings' : 'failed'} label={failedTests} /></Link>}
            <Meter counts={countTasks(Object.values(run.tasks ?? {}))} />
          </div>
          {run.reason && <p className="reason">{run.reason}</p>}
        </div>
        <Actions run={run} />
      </div>
    </header>
  )
}
