import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useMemo, useState } from 'react'

import { api } from '../../api/client'
import { messageOf } from '../../api/problem'
import type { components } from '../../api/schema.gen'
import { Modal } from '../../components/Modal'
import { Loaded } from '../../components/Loaded'
import { StatusBadge } from '../../components/Status'
import { VirtualRows } from '../../components/VirtualRows'
import { duration } from '../../lib/time'
import { inBatches } from '../../runs/bulk'
import { artifactPath, readFile } from './files'
import { failuresFirst, parseInBrowser, parseReport, type TestCase } from './junit'

type Artifact = components['schemas']['Artifact']

/** What the page reads of reports: more files, or greater ones, are left to a download. */
const maxReports = 200
const maxReport = 8 << 20

type Case = TestCase & { task: string; report: string; index: number }

/** Tests shows the tests of the reports among the artifacts, failures first. */
export function Tests({ run, artifacts }: { run: string; artifacts: readonly Artifact[] }) {
  const query = useQuery({
    queryKey: ['tests', run, artifacts.map((a) => a.digest)],
    queryFn: async ({ signal }) => readReports(run, artifacts, signal),
  })
  const [search, setSearch] = useState('')
  const [outcome, setOutcome] = useState('')
  const [shown, setShown] = useState<Case>()
  const rows = useMemo(() => {
    const needle = search.toLowerCase()
    return (query.data?.cases ?? []).filter((c) => (!outcome || c.outcome === outcome) && (!needle || `${c.suite} ${c.name} ${c.message}`.toLowerCase().includes(needle)))
  }, [query.data, search, outcome])
  if (!query.data) return <Loaded query={query} loading="Reading the test reports …">{() => null}</Loaded>
  const { cases, faults } = query.data
  const count = (o: TestCase['outcome']) => cases.filter((c) => c.outcome === o).length
  return (
    <>
      {faults.length > 0 && <details className="notice"><summary>{faults.length === 1 ? 'A report was not read.' : `${faults.length} reports were not read.`}</summary><ul>{faults.slice(0, 50).map((f) => <li key={f}>{f}</li>)}</ul></details>}
      <div className="filters">
        <input type="search" placeholder="test, suite or message" aria-label="Search tests" value={search} onChange={(e) => setSearch(e.target.value)} />
        <select aria-label="Outcome" value={outcome} onChange={(e) => setOutcome(e.target.value)}>
          <option value="">all outcomes</option>
          {(['failed', 'skipped', 'passed'] as const).map((o) => <option key={o} value={o}>{o} ({count(o)})</option>)}
        </select>
        <span className="muted" role="status">{rows.length} of {cases.length} tests</span>
      </div>
      {rows.length > 0 && (
        <VirtualRows<Case>
          label="Tests" rows={rows} keyOf={(c) => String(c.index)}
          columns={[
            { title: 'Outcome', width: '110px', cell: (c) => <StatusBadge kind={c.outcome === 'passed' ? 'success' : c.outcome} label={c.outcome} /> },
            { title: 'Test', width: 'minmax(0, 2fr)', cell: (c) => <button className="link" title={c.name} onClick={() => setShown(c)}>{c.name || 'without a name'}</button> },
            { title: 'Suite', width: 'minmax(0, 1fr)', wide: true, cell: (c) => <span className="muted" title={c.suite}>{c.suite}</span> },
            { title: 'Message', width: 'minmax(0, 2fr)', wide: true, cell: (c) => <span className="muted" title={c.message}>{c.message}</span> },
            { title: 'Duration', width: '90px', wide: true, cell: (c) => (c.seconds === undefined ? '' : duration(c.seconds * 1000)) },
          ]}
        />
      )}
      <Modal title={shown?.name || 'Test'} open={shown !== undefined} onClose={() => setShown(undefined)} wide>
        {shown && <Detail run={run} test={shown} onClose={() => setShown(undefined)} />}
      </Modal>
    </>
  )
}

function Detail({ run, test, onClose }: { run: string; test: Case; onClose: () => void }) {
  // The line of the log that names the test: reports do not say where their tests ran.
  const line = useQuery({
    queryKey: ['test-line', run, test.task, test.name],
    enabled: test.name !== '',
    queryFn: async ({ signal }) => {
      const { data } = await api.GET('/api/v1/runs/{id}/tasks/{task}/logs/search', { signal, params: { path: { id: run, task: test.task }, query: { text: test.name } } })
      const last = data?.matches.at(test.outcome === 'failed' ? -1 : 0)
      return last === undefined ? null : last.line + 1
    },
  })
  return (
    <>
      <p className="facts">
        <StatusBadge kind={test.outcome === 'passed' ? 'success' : test.outcome} label={test.outcome} />
        {test.suite && <span>{test.suite}</span>}
        {test.seconds !== undefined && <span>{duration(test.seconds * 1000)}</span>}
        <span className="mono">{test.report}</span>
      </p>
      {test.message && <p>{test.message}</p>}
      {test.details && <pre className="details" tabIndex={0}>{test.details}</pre>}
      <div className="pager">
        <Link className="button" to="/runs/$id/tasks/$task" params={{ id: run, task: test.task }} search={{ line: line.data ?? undefined }}>{line.data ? `Log of ${test.task}, line ${line.data}` : `Log of ${test.task}`}</Link>
        <button onClick={onClose}>Close</button>
      </div>
    </>
  )
}

async function readReports(run: string, artifacts: readonly Artifact[], signal: AbortSignal): Promise<{ cases: Case[]; faults: string[] }> {
  const faults: string[] = []
  const files: { task: string; name: string; path: string; size: number }[] = []
  await inBatches(artifacts, 2, async ({ task, name }) => {
    try {
      const { data } = await api.GET('/api/v1/runs/{id}/artifacts/{task}/{name}/entries', { signal, params: { path: { id: run, task, name } } })
      for (const e of data!.entries) if (e.type === 'file' && e.path.toLowerCase().endsWith('.xml')) files.push({ task, name, path: e.path, size: e.size })
    } catch (error) {
      if (signal.aborted) throw error
      faults.push(`${task}/${name}: ${messageOf(error)}`)
    }
  })
  if (files.length > maxReports) faults.push(`only the first ${maxReports} of ${files.length} reports are read`)
  const cases: (TestCase & { task: string; report: string })[] = []
  await inBatches(files.slice(0, maxReports), 4, async (f) => {
    try {
      if (f.size > maxReport) throw new Error('it is too large')
      const { content } = await readFile(artifactPath(run, f.task, f.name, f.path), maxReport, signal)
      const report = parseReport(new TextDecoder().decode(content), parseInBrowser)
      if (report.fault) throw new Error(report.fault)
      for (const c of report.cases) cases.push({ ...c, task: f.task, report: `${f.name}/${f.path}` })
    } catch (error) {
      if (signal.aborted) throw error
      faults.push(`${f.task}/${f.name}/${f.path}: ${messageOf(error)}`)
    }
  })
  return { cases: failuresFirst(cases).map((c, index) => ({ ...c, index })), faults }
}
