import { Link, useNavigate } from '@tanstack/react-router'
import { useVirtualizer } from '@tanstack/react-virtual'
import { useQueryClient } from '@tanstack/react-query'
import { memo, useCallback, useEffect, useId, useImperativeHandle, useMemo, useRef, useState, type Ref } from 'react'

import type { Run } from '../api/client'
import { Meter, StatusBadge } from '../components/Status'
import { countsOf, outcome } from '../lib/status'
import { ago, between, duration, timestamp, useNow, useZone } from '../lib/time'
import type { useRunPages } from './pages'

const rowHeight = 54

/** What keys do with the list. */
export interface RunRowsHandle {
  move: (by: number) => void
  first: () => void
  open: () => void
  toggle: () => void
}

interface Props {
  ref: Ref<RunRowsHandle>
  query: ReturnType<typeof useRunPages>
  selected: ReadonlySet<string>
  onSelect: (selected: ReadonlySet<string>) => void
}

/** RunRows shows the runs as rows. Rows above and below the pages in memory are empty until they are read. */
export function RunRows({ ref, query, selected, onSelect }: Props) {
  const queries = useQueryClient()
  const navigate = useNavigate()
  const id = useId()
  const pages = query.data!.pages
  const start = pages[0]?.at ?? 0
  const runs = useMemo(() => pages.flatMap((p) => p.runs), [pages])
  const end = start + runs.length
  const [active, setActive] = useState<string>()
  const scroller = useRef<HTMLDivElement>(null)
  const view = useVirtualizer({ count: end + (query.hasNextPage ? 1 : 0), getScrollElement: () => scroller.current, estimateSize: () => rowHeight, overscan: 8, scrollPaddingStart: 40, scrollPaddingEnd: 10 })
  const items = view.getVirtualItems()
  const first = items[0]?.index ?? 0
  const last = items.at(-1)?.index ?? 0
  const { hasNextPage, isFetching, isError, fetchNextPage, fetchPreviousPage } = query
  useEffect(() => {
    if (isFetching || isError) return
    if (last < start) void queries.resetQueries({ queryKey: ['runs'] }) // far above what is in memory: begin again
    else if (first < start) void fetchPreviousPage()
    else if (last >= end && hasNextPage) void fetchNextPage()
  }, [first, last, start, end, hasNextPage, isFetching, isError, fetchNextPage, fetchPreviousPage, queries])

  const at = active === undefined ? -1 : runs.findIndex((r) => r.id === active)
  const go = (index: number) => {
    const to = Math.min(runs.length - 1, Math.max(0, index))
    const run = runs[to]
    if (!run) return
    setActive(run.id)
    view.scrollToIndex(start + to)
  }
  const current = useRef({ selected, onSelect })
  useEffect(() => { current.current = { selected, onSelect } })
  const toggle = useCallback((run: string) => {
    const next = new Set(current.current.selected)
    if (!next.delete(run)) next.add(run)
    current.current.onSelect(next)
  }, [])
  useImperativeHandle(ref, () => ({
    move: (by) => go(at < 0 ? Math.max(0, Math.ceil((view.scrollOffset ?? 0) / rowHeight) - start) : at + by),
    first: () => { view.scrollToIndex(0); go(0) },
    open: () => { if (at >= 0) void navigate({ to: '/runs/$id', params: { id: runs[at]!.id } }) },
    toggle: () => { if (at >= 0) toggle(runs[at]!.id) },
  }))
  const all = runs.length > 0 && runs.every((r) => selected.has(r.id))
  return (
    <div className="run-rows" ref={scroller} role="grid" aria-label="Runs" aria-rowcount={query.hasNextPage ? -1 : end + 1} aria-multiselectable="true" tabIndex={0}
      aria-activedescendant={at >= 0 && start + at >= first && start + at <= last ? `${id}${active}` : undefined}>
      <div role="rowgroup" className="run-head">
        <div role="row" className="run-row" aria-rowindex={1}>
          <span role="columnheader"><input type="checkbox" aria-label={`Select all loaded runs (${runs.length})`} checked={all} onChange={() => onSelect(all ? new Set() : new Set(runs.map((r) => r.id)))} /></span>
          <span role="columnheader">Result</span>
          <span role="columnheader">Run</span>
          <span role="columnheader" className="wide-only">Group</span>
          <span role="columnheader" className="wide-only">Tasks</span>
          <span role="columnheader" className="wide-only">Created</span>
          <span role="columnheader" className="wide-only number">Duration</span>
        </div>
      </div>
      <div role="rowgroup" className="run-body" style={{ height: view.getTotalSize() }}>
        {items.map((item) => {
          const run = runs[item.index - start]
          const place = { transform: `translateY(${item.start}px)` }
          if (!run) return <div key={`at ${item.index}`} role="row" aria-rowindex={item.index + 2} className="run-row" style={place}><span role="gridcell" /><span role="gridcell" className="muted">Loading …</span></div>
          return (
            <div key={run.id} id={`${id}${run.id}`} role="row" aria-rowindex={item.index + 2} aria-selected={selected.has(run.id)} className="run-row" data-active={run.id === active || undefined} style={place}>
              <Row run={run} checked={selected.has(run.id)} toggle={toggle} />
            </div>
          )
        })}
      </div>
    </div>
  )
}

const Row = memo(function Row({ run, checked, toggle }: { run: Run; checked: boolean; toggle: (id: string) => void }) {
  const zone = useZone()
  const { kind, label } = outcome(run)
  return (
    <>
      <span role="gridcell"><input type="checkbox" aria-label={`Select ${run.name} #${run.counter}`} checked={checked} onChange={() => toggle(run.id)} /></span>
      <span role="gridcell"><StatusBadge kind={kind} label={label} /></span>
      <span role="gridcell" className="name">
        <Link to="/runs/$id" params={{ id: run.id }}><strong>{run.name}</strong> <span className="muted">#{run.counter}</span></Link>
        <span className="reason" title={run.reason}><span className="narrow-only">{run.group} </span>{run.reason || (run.created_by ? `by ${run.created_by}` : '')}</span>
      </span>
      <span role="gridcell" className="wide-only mono" title={run.group}>{run.group}</span>
      <span role="gridcell" className="wide-only"><Meter counts={countsOf(run)} /></span>
      <span role="gridcell" className="wide-only" title={timestamp(run.created_at, zone)}><Ago time={run.created_at} /></span>
      <span role="gridcell" className="wide-only number"><Took run={run} /></span>
    </>
  )
})

function Ago({ time }: { time: string }) {
  return <>{ago(time, useNow())}</>
}

function Took({ run }: { run: Run }) {
  const took = between(run.started_at, run.ended_at, useNow())
  return <>{took !== undefined && duration(took)}</>
}
