import { useQuery } from '@tanstack/react-query'
import { Link, Outlet } from '@tanstack/react-router'
import type { ReactNode } from 'react'

import { api } from '../api/client'
import type { components } from '../api/schema.gen'
import { Act } from '../components/Act'
import { Failure } from '../components/Notice'
import { Table } from '../components/Table'
import { ago, timestamp, useNow, useZone } from '../lib/time'

type Schemas = components['schemas']

/** The figures of these pages have no events: they are read again while the page is visible. */
const refresh = { refetchInterval: 5_000 }

export function Operations() {
  return (
    <>
      <nav className="tabs" aria-label="Operations">
        <Link to="/operations" activeOptions={{ exact: true }}>Executors</Link>
        <Link to="/operations/pools">Pools</Link>
        <Link to="/operations/fleets">Fleets</Link>
        <Link to="/operations/changegroups">Change groups</Link>
        <Link to="/operations/schedules">Schedules</Link>
        <Link to="/operations/webhooks">Webhooks</Link>
      </nav>
      <Outlet />
    </>
  )
}

function Loaded<T>({ query, children }: { query: { data?: T; error: unknown; refetch: () => unknown }; children: (data: T) => ReactNode }) {
  return (
    <>
      {query.error ? <Failure error={query.error} retry={() => void query.refetch()} /> : null}
      {query.data !== undefined ? children(query.data) : !query.error && <p className="muted">Loading …</p>}
    </>
  )
}

function Time({ at }: { at?: string }) {
  const now = useNow()
  const zone = useZone()
  return at ? <time dateTime={at} title={timestamp(at, zone)}>{ago(at, now)}</time> : null
}

function State({ kind, children }: { kind: 'success' | 'failed' | 'waiting_approval' | 'quiet' | 'running'; children: ReactNode }) {
  return <span className="status" data-kind={kind}><i aria-hidden="true" /><span>{children}</span></span>
}

const executorKinds = { online: 'success', draining: 'waiting_approval', offline: 'failed', removed: 'quiet' } as const

export function Executors() {
  const query = useQuery({ queryKey: ['executors'], ...refresh, queryFn: async ({ signal }) => (await api.GET('/api/v1/executors', { signal })).data! })
  return (
    <Loaded query={query}>
      {(page) => (
        <Table<Schemas['Executor']>
          label="Executors" rows={page.executors} idOf={(e) => e.id}
          empty={<><h2>No executor has registered.</h2><p>Start one on a host that has the token of an executor: <code>drover start executor --pool NAME</code></p></>}
          columns={[
            { title: 'Executor', cell: (e) => <><strong>{e.id}</strong><span className="reason">{e.driver}, {e.os}/{e.arch}, version {e.version}</span></> },
            { title: 'State', cell: (e) => <><State kind={executorKinds[e.state]}>{e.drained ? 'drained' : e.state}</State>{e.reason && <span className="reason">{e.reason}</span>}</> },
            { title: 'Pool', cell: (e) => e.pool },
            { title: 'Slots', number: true, cell: (e) => `${e.slots_used} of ${e.slots}` },
            { title: 'Last contact', cell: (e) => <Time at={e.last_contact} /> },
            {
              title: 'Actions', cell: (e) => (
                <span className="actions">
                  {e.state === 'online' && <Act label="Drain" confirm={<p>{e.id} finishes its {e.tasks} tasks and takes no other.</p>} changes={['executors']}
                    act={() => api.POST('/api/v1/executors/{id}/drain', { params: { path: { id: e.id } }, body: { resume: false } })} />}
                  {e.state !== 'removed' && <Act label="Remove" danger changes={['executors']}
                    confirm={<p>{e.tasks === 0 ? `${e.id} has no task.` : `The ${e.tasks} tasks of ${e.id} are lost: each fails, or is retried if its on_executor_lost says so.`}</p>}
                    act={() => api.DELETE('/api/v1/executors/{id}', { params: { path: { id: e.id } } })} />}
                </span>
              ),
            },
          ]}
        />
      )}
    </Loaded>
  )
}

export function Pools() {
  const query = useQuery({ queryKey: ['pools'], ...refresh, queryFn: async ({ signal }) => (await api.GET('/api/v1/pools', { signal })).data! })
  return (
    <Loaded query={query}>
      {(page) => (
        <Table<Schemas['Pool']>
          label="Pools" rows={page.pools} idOf={(p) => p.name} empty={<h2>There are no pools.</h2>}
          columns={[
            { title: 'Pool', cell: (p) => <><strong>{p.name}</strong>{p.default && <span className="muted"> default</span>}<span className="reason">{Object.entries(p.labels).map(([k, v]) => `${k}=${v}`).join(', ')}</span></> },
            { title: 'Driver', cell: (p) => `${p.driver}${p.os ? `, ${p.os}` : ''}${p.arch ? `/${p.arch}` : ''}` },
            { title: 'Executors', cell: (p) => <State kind={p.online > 0 ? 'success' : 'failed'}>{p.online} online{p.draining > 0 && `, ${p.draining} draining`}{p.offline > 0 && `, ${p.offline} offline`}</State> },
            { title: 'Slots', number: true, cell: (p) => `${p.slots_used} of ${p.slots}` },
            { title: 'Queued', number: true, cell: (p) => p.queued },
            { title: 'Running', number: true, cell: (p) => p.running },
          ]}
        />
      )}
    </Loaded>
  )
}

export function Fleets() {
  const query = useQuery({ queryKey: ['fleets'], ...refresh, queryFn: async ({ signal }) => (await api.GET('/api/v1/fleets', { signal })).data! })
  return (
    <Loaded query={query}>
      {(page) => (
        <Table<Schemas['Fleet']>
          label="Fleets" rows={page.fleets} idOf={(f) => f.name}
          empty={<><h2>There are no fleets.</h2><p>A fleet adds and removes machines as the tasks of a pool need them.</p></>}
          columns={[
            { title: 'Fleet', cell: (f) => <><strong>{f.name}</strong><span className="reason">{f.spec.plugin}</span></> },
            { title: 'Pool', cell: (f) => f.spec.pool },
            { title: 'Mode', cell: (f) => <><State kind={f.status.error ? 'failed' : f.mode === 'active' ? 'success' : 'waiting_approval'}>{f.mode}</State><span className="reason">{f.status.error ?? f.reason}</span></> },
            { title: 'Instances', cell: (f) => Object.entries(f.counts).filter(([, n]) => n > 0).map(([state, n]) => `${n} ${state}`).join(', ') || 'none' },
            { title: 'Demand', cell: (f) => `${f.status.queued ?? 0} queued, ${f.status.busy ?? 0} busy, ${f.status.free ?? 0} free` },
            {
              title: 'Actions', cell: (f) => (
                <span className="actions">
                  {f.mode === 'active' && <Act label="Pause" confirm={<p>The fleet requests and deletes no machine until it is resumed. Its machines go on with tasks.</p>} changes={['fleets']}
                    act={() => api.POST('/api/v1/fleets/{name}/pause', { params: { path: { name: f.name } }, body: {} })} />}
                  {(f.mode === 'paused' || f.mode === 'draining') && <Act label="Resume" changes={['fleets']} act={() => api.POST('/api/v1/fleets/{name}/resume', { params: { path: { name: f.name } }, body: {} })} />}
                  {f.mode !== 'draining' && <Act label="Drain" danger confirm={<p>Each machine finishes its tasks, and is deleted then.</p>} changes={['fleets']}
                    act={() => api.POST('/api/v1/fleets/{name}/drain', { params: { path: { name: f.name } }, body: {} })} />}
                </span>
              ),
            },
          ]}
        />
      )}
    </Loaded>
  )
}

export function ChangeGroups() {
  const query = useQuery({ queryKey: ['changegroups'], ...refresh, queryFn: async ({ signal }) => (await api.GET('/api/v1/changegroups', { signal })).data! })
  const runs = (ids: string[]) => ids.slice(0, 5).map((id) => <Link key={id} className="mono" to="/runs/$id" params={{ id }}>{id} </Link>)
  return (
    <Loaded query={query}>
      {(page) => (
        <Table<Schemas['ChangeGroup']>
          label="Change groups" rows={page.changegroups} idOf={(g) => g.name} empty={<h2>There are no change groups.</h2>}
          columns={[
            { title: 'Change group', cell: (g) => <strong>{g.name}</strong> },
            { title: 'Limit', number: true, cell: (g) => (g.max_running === 0 ? 'none' : g.max_running) },
            { title: 'If busy', cell: (g) => g.on_busy.replace('_', ' ') },
            { title: 'Hold a slot', cell: (g) => <>{g.running.length > 5 && `${g.running.length}, first `}{runs(g.running)}</> },
            { title: 'Wait', cell: (g) => <>{g.queued.length > 5 && `${g.queued.length}, next `}{runs(g.queued)}</> },
          ]}
        />
      )}
    </Loaded>
  )
}

export function Schedules() {
  const zone = useZone()
  const query = useQuery({ queryKey: ['schedules'], ...refresh, queryFn: async ({ signal }) => (await api.GET('/api/v1/schedules', { signal })).data! })
  return (
    <Loaded query={query}>
      {(page) => (
        <Table<Schemas['Schedule']>
          label="Schedules" rows={page.schedules} idOf={(s) => s.name} empty={<h2>There are no schedules.</h2>}
          columns={[
            { title: 'Schedule', cell: (s) => <><strong>{s.name}</strong><span className="reason">{s.run_name} in {s.group}</span></> },
            { title: 'When', cell: (s) => <span className="mono">{[...(s.cron ?? []), ...(s.intervals ?? []).map((i) => `every ${i.every}`)].join('; ')}{s.timezone && ` ${s.timezone}`}</span> },
            { title: 'State', cell: (s) => <><State kind={s.paused ? 'waiting_approval' : 'success'}>{s.paused ? 'paused' : 'active'}</State><span className="reason">{s.note}</span></> },
            { title: 'Next', cell: (s) => timestamp(s.next[0], zone) },
            { title: 'Fired', number: true, cell: (s) => s.fired },
            {
              title: 'Actions', cell: (s) => {
                const params = { path: { name: s.name } }
                return (
                  <span className="actions">
                    <Act label="Trigger" changes={['schedules']} confirm={<p>A run of {s.name} starts now.</p>} act={() => api.POST('/api/v1/schedules/{name}/trigger', { params, body: {} })} />
                    {s.paused
                      ? <Act label="Resume" changes={['schedules']} act={() => api.POST('/api/v1/schedules/{name}/resume', { params, body: {} })} />
                      : <Act label="Pause" changes={['schedules']} act={() => api.POST('/api/v1/schedules/{name}/pause', { params, body: {} })} />}
                  </span>
                )
              },
            },
          ]}
        />
      )}
    </Loaded>
  )
}

export function Webhooks() {
  const query = useQuery({ queryKey: ['webhooks'], ...refresh, queryFn: async ({ signal }) => (await api.GET('/api/v1/webhooks', { signal })).data! })
  return (
    <Loaded query={query}>
      {(page) => (
        <Table<Schemas['Webhook']>
          label="Webhooks" rows={page.webhooks} idOf={(w) => w.name} empty={<h2>There are no webhooks.</h2>}
          columns={[
            { title: 'Webhook', cell: (w) => <><strong>{w.name}</strong><span className="reason mono">{w.url}</span></> },
            { title: 'Events', cell: (w) => `${w.events.join(', ')}${w.group ? ` of ${w.group}` : ''}` },
            { title: 'State', cell: (w) => <><State kind={!w.enabled ? 'quiet' : w.failures > 0 ? 'failed' : 'success'}>{!w.enabled ? 'disabled' : w.failures > 0 ? `${w.failures} failed attempts` : 'delivers'}</State><span className="reason">{w.last_error}</span></> },
            { title: 'Last attempt', cell: (w) => <Time at={w.last_attempt_at} /> },
            { title: 'Delivered up to', number: true, cell: (w) => w.delivered },
          ]}
        />
      )}
    </Loaded>
  )
}

export function Approvals() {
  const query = useQuery({ queryKey: ['approvals'], ...refresh, queryFn: async ({ signal }) => (await api.GET('/api/v1/approvals', { signal })).data! })
  return (
    <>
      <h1>Approvals</h1>
      <Loaded query={query}>
        {(page) => (
          <Table<Schemas['Approval']>
            label="Approvals" rows={page.approvals} idOf={(a) => `${a.run}/${a.task}`} empty={<h2>No task waits for approval.</h2>}
            columns={[
              { title: 'Task', cell: (a) => <Link to="/runs/$id/tasks/$task" params={{ id: a.run, task: a.task }}><strong>{a.task}</strong></Link> },
              { title: 'Run', cell: (a) => <><Link to="/runs/$id" params={{ id: a.run }}>{a.run_name}</Link><span className="reason mono">{a.group}</span></> },
              { title: 'Given', number: true, cell: (a) => `${a.approved_by.length} of ${a.approvers}` },
              { title: 'From', cell: (a) => a.from?.join(', ') ?? 'anyone with the scope' },
              { title: 'Waits since', cell: (a) => <Time at={a.waiting_since} /> },
            ]}
          />
        )}
      </Loaded>
    </>
  )
}
