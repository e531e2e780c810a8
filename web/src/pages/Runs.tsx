import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { useCallback, useRef, useState } from 'react'

import { Button } from '../components/Button'
import { Command } from '../components/Command'
import { Failed } from '../components/Loaded'
import { useKeys } from '../lib/keys'
import { useRefusal } from '../lib/session'
import { Bulk } from '../runs/Bulk'
import { Filters } from '../runs/Filters'
import { isFiltered, type RunFilters } from '../runs/filters'
import { KeysHelp } from '../runs/KeysHelp'
import { useRunPages } from '../runs/pages'
import { RunRows, type RunRowsHandle } from '../runs/RunRows'
import '../runs/runs.css'

const route = getRouteApi('/runs')

/** Runs is the list of runs, of any length. */
export function Runs() {
  const filters = route.useSearch()
  const navigate = useNavigate({ from: '/runs' })
  const query = useRunPages(filters)
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set())
  const [help, setHelp] = useState(false)
  const rows = useRef<RunRowsHandle>(null)
  const search = useRef<HTMLInputElement>(null)
  const change = useCallback((next: RunFilters) => {
    setSelected(new Set())
    void navigate({ search: (old) => ({ ...old, ...next }) })
  }, [navigate])
  useKeys({
    '?': () => setHelp(true),
    f: () => search.current?.focus(),
    j: () => rows.current?.move(1),
    k: () => rows.current?.move(-1),
    ArrowDown: () => rows.current?.move(1),
    ArrowUp: () => rows.current?.move(-1),
    PageDown: () => rows.current?.move(10),
    PageUp: () => rows.current?.move(-10),
    Home: () => rows.current?.first(),
    Enter: () => rows.current?.open(),
    x: () => rows.current?.toggle(),
    Escape: () => setSelected(new Set()),
  })
  const empty = query.data?.pages.every((p) => p.runs.length === 0)
  return (
    <>
      <div className="head">
        <h1>Runs</h1>
        <nav className="views" aria-label="Views of the runs">
          <Link to="/runs" search={filters} activeOptions={{ exact: true, includeSearch: false }}>List</Link>
          <Link to="/runs/groups" search={{ under: filters.group }}>Groups</Link>
        </nav>
        <div className="actions">
          <button onClick={() => setHelp(true)} aria-keyshortcuts="?">Keys</button>
          <SubmitLink />
        </div>
      </div>
      <Filters filters={filters} onChange={change} search={search} />
      <Failed query={query} />
      {query.isPending && !query.failureReason && <p className="muted">Loading the runs …</p>}
      {empty && (isFiltered(filters) ? <div className="empty"><p>No run matches the filters.</p><Link to="/runs" className="button">Clear the filters</Link></div> : <First />)}
      {/* Its dialog tells the outcomes also when the last run has left the list. */}
      <Bulk pages={query.data?.pages ?? []} selected={selected} onSelect={setSelected} />
      {query.data && !empty && <RunRows ref={rows} query={query} selected={selected} onSelect={setSelected} />}
      <KeysHelp open={help} onClose={() => setHelp(false)} />
    </>
  )
}

/** SubmitLink leads to the page that submits runs. */
function SubmitLink() {
  const refusal = useRefusal()('createRun')
  if (refusal) return <Button refusal={refusal} className="primary">Submit a run</Button>
  return <Link className="button primary" to="/submit">Submit a run</Link>
}

/** First shows how to submit the first run. */
function First() {
  const refusal = useRefusal()('createRun')
  if (refusal) return <div className="empty first"><h2>There are no runs yet.</h2><p>To submit one: {refusal}</p></div>
  return (
    <div className="empty first">
      <h2>There are no runs yet.</h2>
      <p>Write a run file, and submit it from the command line:</p>
      <p><Command needs="createRun" text="drover init" /></p>
      <p><Command needs="createRun" text="drover run drover.yaml --follow" /></p>
      <p>Or write and submit it here:</p>
      <p><SubmitLink /></p>
    </div>
  )
}
