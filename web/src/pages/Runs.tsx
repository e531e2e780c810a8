import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'

import { api, type Phase, type Result, type Run } from '../api/client'
import { Failure } from '../components/Notice'
import { Meter, StatusBadge } from '../components/Status'
import { outcome } from '../lib/status'
import { ago, between, duration, timestamp, useNow, useZone } from '../lib/time'

/** RunFilters are the filters of the list, as the URL has them. */
export interface RunFilters {
  phase?: string[]
  result?: string[]
  group?: string
  changegroup?: string
  annotation?: string
  cursor?: string
}

const route = getRouteApi('/runs')
const phases: Phase[] = ['queued', 'running', 'finished', 'cancelled', 'setup_error']
const results: Result[] = ['success', 'failed', 'stopped']

export function Runs() {
  const filters = route.useSearch()
  const navigate = useNavigate({ from: '/runs' })
  const query = useQuery({
    queryKey: ['runs', filters],
    placeholderData: keepPreviousData,
    queryFn: async ({ signal }) => {
      const { data } = await api.GET('/api/v1/runs', {
        signal,
        params: {
          query: {
            limit: 50,
            phase: filters.phase as Phase[] | undefined,
            result: filters.result as Result[] | undefined,
            group: filters.group ? [filters.group] : undefined,
            changegroup: filters.changegroup ? [filters.changegroup] : undefined,
            annotation: filters.annotation ? [filters.annotation] : undefined,
            cursor: filters.cursor,
          },
        },
      })
      return data!
    },
  })
  const change = (next: RunFilters) => void navigate({ search: (old) => ({ ...old, cursor: undefined, ...next }) })
  const filtered = Object.values(filters).some((v) => v !== undefined)
  const page = query.data
  return (
    <>
      <h1>Runs</h1>
      <form className="filters" onSubmit={(e) => e.preventDefault()} aria-label="Filters">
        <Choice label="Phase" all="every phase" options={phases} value={filters.phase?.[0]} onChange={(v) => change({ phase: v ? [v] : undefined })} />
        <Choice label="Result" all="every result" options={results} value={filters.result?.[0]} onChange={(v) => change({ result: v ? [v] : undefined })} />
        <Words label="Group" placeholder="group, such as /acme" value={filters.group} onChange={(group) => change({ group })} />
        <Words label="Change group" placeholder="change group" value={filters.changegroup} onChange={(changegroup) => change({ changegroup })} />
        <Words label="Annotation" placeholder="annotation key=value" value={filters.annotation} onChange={(annotation) => change({ annotation })} />
        {filtered && <Link to="/runs" className="button">Clear</Link>}
      </form>
      {query.error && <Failure error={query.error} retry={() => void query.refetch()} />}
      {page && page.runs.length === 0 && (filtered ? <div className="empty">No run matches the filters.</div> : <First />)}
      {page && page.runs.length > 0 && (
        <table className="table">
          <thead>
            <tr><th>Result</th><th>Run</th><th>Group</th><th>Tasks</th><th>Created</th><th>Duration</th></tr>
          </thead>
          <tbody>{page.runs.map((r) => <Row key={r.id} run={r} />)}</tbody>
        </table>
      )}
      {page && (page.prev_cursor || page.next_cursor) && (
        <nav className="pager" aria-label="Pages">
          <button disabled={!page.prev_cursor} onClick={() => void navigate({ search: (old) => ({ ...old, cursor: page.prev_cursor }) })}>Newer</button>
          <button disabled={!page.next_cursor} onClick={() => void navigate({ search: (old) => ({ ...old, cursor: page.next_cursor }) })}>Older</button>
        </nav>
      )}
    </>
  )
}

function Row({ run }: { run: Run }) {
  const now = useNow()
  const zone = useZone()
  const took = between(run.started_at, run.ended_at, now)
  const { kind, label } = outcome(run)
  return (
    <tr>
      <td><StatusBadge kind={kind} label={label} /></td>
      <td>
        <Link to="/runs/$id" params={{ id: run.id }}><strong>{run.name}</strong> <span className="muted">#{run.counter}</span></Link>
        {run.reason && <span className="reason">{run.reason}</span>}
      </td>
      <td className="mono">{run.group}</td>
      <td><Meter counts={run.task_counts ?? {}} /></td>
      <td title={timestamp(run.created_at, zone)}>{ago(run.created_at, now)}</td>
      <td className="number">{took !== undefined && duration(took)}</td>
    </tr>
  )
}

function Choice({ label, all, options, value, onChange }: { label: string; all: string; options: readonly string[]; value?: string; onChange: (v?: string) => void }) {
  return (
    <label>
      <span className="visually-hidden">{label}</span>
      <select value={value ?? ''} onChange={(e) => onChange(e.target.value || undefined)}>
        <option value="">{all}</option>
        {options.map((o) => <option key={o} value={o}>{o.replace('_', ' ')}</option>)}
      </select>
    </label>
  )
}

function Words({ label, placeholder, value, onChange }: { label: string; placeholder: string; value?: string; onChange: (v?: string) => void }) {
  return (
    <label>
      <span className="visually-hidden">{label}</span>
      <input
        key={value ?? ''} type="search" defaultValue={value} placeholder={placeholder}
        onBlur={(e) => (e.target.value || undefined) !== value && onChange(e.target.value || undefined)}
        onKeyDown={(e) => e.key === 'Enter' && onChange(e.currentTarget.value || undefined)}
      />
    </label>
  )
}

function First() {
  return (
    <div className="empty">
      <h2>There are no runs yet.</h2>
      <p>Write a run file and submit it:</p>
      <pre>{'drover init\ndrover run drover.yaml --follow'}</pre>
    </div>
  )
}
