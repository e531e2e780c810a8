import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link, Outlet, useNavigate } from '@tanstack/react-router'
import { useEffect } from 'react'

import { api, messageOf, type Run } from '../api/client'
import { Failure } from '../components/Notice'
import { Meter, StatusBadge } from '../components/Status'
import { countTasks, outcome } from '../lib/status'
import { between, duration, timestamp, useNow, useZone } from '../lib/time'

const route = getRouteApi('/runs/$id')

export function useRun() {
  const { id } = route.useParams()
  return useQuery({
    queryKey: ['run', id],
    queryFn: async ({ signal }) => (await api.GET('/api/v1/runs/{id}', { signal, params: { path: { id } } })).data as Run,
  })
}

export function RunPage() {
  const query = useRun()
  const run = query.data
  const title = run && `${run.name} #${run.counter} · Drover`
  useEffect(() => {
    if (title) document.title = title
    return () => { document.title = 'Drover' }
  }, [title])
  if (!run) return query.error ? <Failure error={query.error} retry={() => void query.refetch()} /> : <p className="muted">Loading the run …</p>
  return (
    <>
      {query.error && <Failure error={query.error} />}
      <Head run={run} />
      <nav className="tabs" aria-label="Views of the run">
        <Link to="/runs/$id" params={{ id: run.id }} activeOptions={{ exact: true }}>Graph</Link>
        <Link to="/runs/$id/timeline" params={{ id: run.id }}>Timeline</Link>
        <Link to="/runs/$id/tasks" params={{ id: run.id }}>Tasks and logs</Link>
      </nav>
      <Outlet />
    </>
  )
}

function Head({ run }: { run: Run }) {
  const now = useNow()
  const zone = useZone()
  const { kind, label } = outcome(run)
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
            {took !== undefined && <span>took <b>{duration(took)}</b></span>}
            {run.restarted_from && <span>restart of <Link to="/runs/$id" params={{ id: run.restarted_from }}>{run.restarted_from}</Link></span>}
            <Meter counts={countTasks(Object.values(run.tasks ?? {}))} />
          </div>
          {run.reason && <p className="reason">{run.reason}</p>}
        </div>
        <Actions run={run} />
      </div>
    </header>
  )
}

function Actions({ run }: { run: Run }) {
  const queries = useQueryClient()
  const navigate = useNavigate()
  const params = { path: { id: run.id } }
  const act = useMutation({
    mutationFn: async (action: 'start' | 'stop' | 'cancel' | 'restart' | 'restart-failed') => {
      switch (action) {
        case 'start': await api.POST('/api/v1/runs/{id}/start', { params, body: {} }); return
        case 'stop': await api.POST('/api/v1/runs/{id}/stop', { params, body: { force: run.stop_requested ?? false } }); return
        case 'cancel': await api.POST('/api/v1/runs/{id}/cancel', { params, body: {} }); return
        default: {
          const { data } = await api.POST('/api/v1/runs/{id}/restart', { params, body: { from: action === 'restart' ? 'start' : 'failed' } })
          if (data) void navigate({ to: '/runs/$id', params: { id: data.id } })
        }
      }
    },
    onSettled: () => queries.invalidateQueries({ queryKey: ['run', run.id] }),
  })
  const waits = run.phase === 'queued'
  const over = run.phase === 'finished' || run.phase === 'cancelled' || run.phase === 'setup_error'
  return (
    <div className="actions">
      {waits && run.admission === 'manual' && <button className="primary" onClick={() => act.mutate('start')}>Start</button>}
      {waits && <button className="danger" onClick={() => act.mutate('cancel')}>Cancel</button>}
      {run.phase === 'running' && <button className="danger" onClick={() => act.mutate('stop')}>{run.stop_requested ? 'Stop by force' : 'Stop'}</button>}
      {over && <button onClick={() => act.mutate('restart')}>Restart</button>}
      {over && (run.result === 'failed' || run.result === 'stopped' || !!run.warnings?.length) && <button onClick={() => act.mutate('restart-failed')}>Restart from failed</button>}
      {act.error && <span role="alert" className="status" data-kind="failed">{messageOf(act.error)}</span>}
    </div>
  )
}
