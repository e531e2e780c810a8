import { useInfiniteQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { useVirtualizer } from '@tanstack/react-virtual'
import { useEffect, useId, useMemo, useRef, useState, type ReactNode } from 'react'

import { api } from '../api/client'
import { readOn } from '../api/list'
import {
  actionLabel, exportPath, fromInput, resourceOf, results, rightsOf, toInput, type AuditFilters, type AuditRecord, type AuditResult,
} from '../audit/audit'
import { Failed } from '../components/Loaded'
import { counted } from '../lib/counted'
import { timestamp, useZone } from '../lib/time'
import './audit.css'

const route = getRouteApi('/audit')

/** Whether the filters leave room for records below them. */
const wide = () => window.matchMedia('(min-width: 721px)').matches

/** Audit shows who called what. Pages are read as the user scrolls; only the rows in view are in the document. */
export function Audit() {
  const filters = route.useSearch()
  const navigate = useNavigate({ from: '/audit' })
  const queries = useQueryClient()
  const query = useInfiniteQuery({
    queryKey: ['audit', filters],
    // The log has no events. It is read again when the page is opened, or by the button.
    gcTime: 0,
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) => readOn('records', pageParam, async (cursor) => (await api.GET('/api/v1/audit', { signal, params: { query: { ...filters, limit: 100, cursor } } })).data!),
    getNextPageParam: (page) => page.next_cursor,
  })
  const change = (next: AuditFilters) => void navigate({ search: (old) => ({ ...old, ...next }) })
  const filtered = Object.values(filters).some((v) => v !== undefined)
  const records = useMemo(() => query.data?.pages.flatMap((p) => p.records) ?? [], [query.data])
  const read = () => void queries.resetQueries({ queryKey: ['audit', filters] })
  return (
    <>
      <div className="head">
        <h1>Audit log</h1>
        <div className="actions">
          <button onClick={read} disabled={query.isFetching}>Read again</button>
          <a className="button" href={exportPath(filters)} download>Export JSON lines</a>
        </div>
      </div>
      <details className="audit-fold" open={filtered || wide()}>
        <summary>Filters</summary>
        <Filters filters={filters} change={change} filtered={filtered} />
      </details>
      <Failed query={query} />
      {query.isPending && !query.failureReason && <p className="muted" role="status">Loading …</p>}
      {query.data && records.length === 0 && (
        <div className="empty">
          {filtered ? 'No record matches the filters.' : <><h2>There are no records yet.</h2><p>Each call that changes something, each login and each refusal has one.</p></>}
        </div>
      )}
      {records.length > 0 && (
        <Records records={records} more={query.hasNextPage} loading={query.isFetchingNextPage} failed={query.isFetchNextPageError}
          next={() => void query.fetchNextPage()} />
      )}
    </>
  )
}

function Filters({ filters, change, filtered }: { filters: AuditFilters; change: (next: AuditFilters) => void; filtered: boolean }) {
  const zone = useZone()
  return (
    <form className="filters audit-filters" onSubmit={(e) => e.preventDefault()} aria-label="Filters">
      <Words label="Subject" placeholder="token name" value={filters.subject} onChange={(subject) => change({ subject })} />
      <Words label="Operation" placeholder="stopRun" value={filters.action} onChange={(action) => change({ action })} />
      <Words label="Resource" placeholder="run/ID or pool" value={filters.resource} onChange={(resource) => change({ resource })} />
      <Words label="Group" placeholder="/acme" value={filters.group} onChange={(group) => change({ group })} />
      <label>
        <span>Result</span>
        <select value={filters.result ?? ''} onChange={(e) => change({ result: (e.target.value || undefined) as AuditResult | undefined })}>
          <option value="">all results</option>
          {results.map((r) => <option key={r}>{r}</option>)}
        </select>
      </label>
      <Moment label="From" zone={zone} value={filters.from} onChange={(from) => change({ from })} />
      <Moment label="To" zone={zone} value={filters.to} onChange={(to) => change({ to })} />
      {filtered && <Link to="/audit" className="button">Clear</Link>}
    </form>
  )
}

function Words({ label, placeholder, value, onChange }: { label: string; placeholder: string; value?: string; onChange: (v?: string) => void }) {
  const apply = (text: string) => {
    const next = text.trim() || undefined
    if (next !== value) onChange(next)
  }
  return (
    <label>
      <span>{label}</span>
      <input key={value ?? ''} type="search" defaultValue={value} placeholder={placeholder} spellCheck={false}
        onBlur={(e) => apply(e.target.value)} onKeyDown={(e) => e.key === 'Enter' && apply(e.currentTarget.value)} />
    </label>
  )
}

function Moment({ label, zone, value, onChange }: { label: string; zone: 'local' | 'utc'; value?: string; onChange: (v?: string) => void }) {
  const shown = toInput(value, zone)
  return (
    <label>
      <span>{label}{zone === 'utc' && ' (UTC)'}</span>
      <input key={shown} type="datetime-local" defaultValue={shown}
        onBlur={(e) => e.target.value !== shown && onChange(fromInput(e.target.value, zone))}
        onKeyDown={(e) => e.key === 'Enter' && e.currentTarget.value !== shown && onChange(fromInput(e.currentTarget.value, zone))} />
    </label>
  )
}

const columns = ['Time', 'Subject', 'Operation', 'Resource', 'Result', 'Address']

function Records({ records, more, loading, failed, next }: { records: AuditRecord[]; more: boolean; loading: boolean; failed: boolean; next: () => void }) {
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set())
  const scroller = useRef<HTMLDivElement>(null)
  const rows = useVirtualizer({
    count: records.length, getScrollElement: () => scroller.current, estimateSize: () => 38, overscan: 10, getItemKey: (i) => records[i]!.id,
  })
  const items = rows.getVirtualItems()
  const last = items.at(-1)?.index ?? 0
  useEffect(() => {
    if (more && !loading && !failed && last >= records.length - 20) next()
  }, [more, loading, failed, last, records.length, next])
  const toggle = (id: string) => setOpen((old) => {
    const now = new Set(old)
    if (!now.delete(id)) now.add(id)
    return now
  })
  return (
    <>
      <div className="rows audit" ref={scroller} role="table" aria-label="Records" aria-rowcount={more ? -1 : records.length + 1} tabIndex={0}>
        <div className="row header" role="row">{columns.map((c) => <span key={c} role="columnheader">{c}</span>)}</div>
        <div role="rowgroup" ref={(e) => { e?.style.setProperty('height', `${rows.getTotalSize()}px`); e?.style.setProperty('position', 'relative') }}>
          {items.map((item) => {
            const record = records[item.index]!
            return (
              <div key={item.key} className="placed" data-index={item.index} ref={(e) => { rows.measureElement(e); e?.style.setProperty('transform', `translateY(${item.start}px)`) }}>
                <Row record={record} index={item.index + 2} open={open.has(record.id)} toggle={() => toggle(record.id)} />
              </div>
            )
          })}
        </div>
      </div>
      <p className="muted" role="status">{more ? `${counted(records.length, 'record')} read; more follow as you scroll` : counted(records.length, 'record')}</p>
    </>
  )
}

const looks = {
  success: { kind: 'success', sign: '✓' },
  failed: { kind: 'failed', sign: '✕' },
  refused: { kind: 'stopped', sign: '–' },
  unknown: { kind: 'waiting_approval', sign: '?' },
} as const

function Row({ record, index, open, toggle }: { record: AuditRecord; index: number; open: boolean; toggle: () => void }) {
  const zone = useZone()
  const details = useId()
  return (
    <>
      <div className="row" role="row" aria-rowindex={index}>
        <span role="cell"><time dateTime={record.time}>{timestamp(record.time, zone)}</time></span>
        <span role="cell">{record.subject ?? <span className="muted">not known</span>}</span>
        <span role="cell">
          <button className="disclose" aria-expanded={open} aria-controls={details} onClick={toggle} title={record.action}>{actionLabel(record.action)}</button>
        </span>
        <span role="cell" className="mono"><Resource record={record} /></span>
        <span role="cell">
          <span className="status" data-kind={looks[record.result].kind}><i aria-hidden="true"><b>{looks[record.result].sign}</b></i><span>{record.result}{record.count > 1 && ` × ${record.count}`}</span></span>
        </span>
        <span role="cell" className="mono muted">{record.remote}</span>
      </div>
      {open && <Details id={details} record={record} />}
    </>
  )
}

function Resource({ record }: { record: AuditRecord }) {
  const { kind, id, task } = record.resource ?? {}
  if (kind !== 'run' || !id) return <>{resourceOf(record)}</>
  if (task) return <Link to="/runs/$id/tasks/$task" params={{ id, task }}>run/{id} {task}</Link>
  return <Link to="/runs/$id" params={{ id }}>run/{id}</Link>
}

/** What the result means where its name does not say it. */
const meanings: Partial<Record<AuditResult, string>> = {
  failed: 'nothing was changed',
  refused: 'nothing was changed',
  unknown: 'the change may have been made',
}

function Details({ id, record }: { id: string; record: AuditRecord }) {
  const zone = useZone()
  const facts: [string, ReactNode][] = [
    ['Operation', record.action && <span className="mono">{record.action}</span>],
    ['Status', [record.status, record.code, meanings[record.result]].filter(Boolean).join(', ')],
    ['Created', record.created && <Link className="mono" to="/runs/$id" params={{ id: record.created }}>{record.created}</Link>],
    ['Group', record.group],
    ['Token', record.token],
    ['Rights', record.details && <span key="rights" className="mono rights">{rightsOf(record.details)}</span>],
    ['Requests', record.count > 1 && `${record.count}, the last one at ${timestamp(record.until, zone)}`],
    ['Request', record.request_id && <span className="mono">{record.request_id}</span>],
    ['Record', <span key="id" className="mono">{record.id}</span>],
  ]
  const resource = resourceOf(record)
  return (
    <div className="details" id={id} role="row"><div role="cell">
      <dl>{facts.map(([name, value]) => value && <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
      <p className="only">
        {record.subject && <Link to="/audit" search={{ subject: record.subject }}>All of {record.subject}</Link>}
        {resource && <Link to="/audit" search={{ resource }}>All on {resource}</Link>}
        {record.action && <Link to="/audit" search={{ action: record.action }}>All {record.action}</Link>}
      </p>
    </div></div>
  )
}
