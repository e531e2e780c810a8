import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useMemo } from 'react'

import { api } from '../../api/client'
import type { components } from '../../api/schema.gen'
import { Command } from '../../components/Command'
import { Failed } from '../../components/Loaded'
import { VirtualRows } from '../../components/VirtualRows'
import { bytes } from '../../lib/bytes'
import { quoted } from '../../lib/shell'
import { useThrottled } from '../../lib/throttle'
import { timestamp, useZone } from '../../lib/time'
import { useRun } from '../../pages/Run'
import { ArtifactBrowser } from './ArtifactBrowser'
import { artifactPath } from './files'
import './results.css'
import { Tests } from './Tests'

const route = getRouteApi('/runs/$id/results')

/** ResultsSearch is what the page shows, as the URL has it. */
export interface ResultsSearch {
  task?: string
  artifact?: string
  path?: string
}

/** ResultsTab shows what the tasks made: test results, artifacts and outputs. */
export function ResultsTab() {
  const run = useRun().data
  const zone = useZone()
  const shown = route.useSearch()
  const navigate = route.useNavigate()
  // Artifacts have no events. They are saved before their task ends, which the status of the run's tasks tells.
  const ended = useThrottled(Object.values(run?.tasks ?? {}).filter((t) => t.ended_at).length, 3000)
  const query = useQuery({
    queryKey: ['artifacts', run?.id, ended],
    enabled: run !== undefined,
    placeholderData: (before: components['schemas']['Artifacts'] | undefined, of) => (of?.queryKey[1] === run?.id ? before : undefined),
    queryFn: async ({ signal }) => (await api.GET('/api/v1/runs/{id}/artifacts', { signal, params: { path: { id: run!.id } } })).data!,
  })
  const outputs = useMemo(
    () => Object.entries(run?.tasks ?? {}).sort(([, a], [, b]) => a.number - b.number).flatMap(([task, t]) => Object.entries(t.outputs).map(([key, value]) => ({ task, key, value }))),
    [run?.tasks],
  )
  if (!run) return null
  const artifacts = query.data?.artifacts ?? []
  const reports = artifacts.filter((a) => a.tests && !a.removed)
  const open = artifacts.find((a) => a.task === shown.task && a.name === shown.artifact)
  if (query.data && artifacts.length === 0 && outputs.length === 0) {
    return <div className="empty"><h2>No results{run.phase === 'running' ? ' yet' : ''}.</h2><p>A step with <code>save_artifacts</code> keeps files of a task, and with <code>junit</code> its test reports. A step that writes to <code>$DROVER_OUTPUT</code> has outputs.</p></div>
  }
  return (
    <div className="results">
      <Failed query={query} />
      {reports.length > 0 && query.data?.tests && (
        <section aria-labelledby="tests">
          <h2 id="tests">Tests <span className="muted">{query.data.tests.tests} tests, {query.data.tests.failed} failed, {query.data.tests.skipped} skipped</span></h2>
          <Tests run={run.id} artifacts={reports} />
        </section>
      )}
      {artifacts.length > 0 && (
        <section aria-labelledby="artifacts">
          <h2 id="artifacts">Artifacts</h2>
          <VirtualRows
            label="Artifacts" rows={artifacts} keyOf={(a) => `${a.task}\n${a.name}`}
            columns={[
              { title: 'Artifact', width: 'minmax(0, 1fr)', cell: (a) => (a.removed ? <span className="muted">{a.name} (removed by its age)</span> : <Link to="/runs/$id/results" params={{ id: run.id }} search={{ task: a.task, artifact: a.name }} aria-current={a === open ? 'true' : undefined}>{a.name}</Link>) },
              { title: 'Task', width: 'minmax(0, 1fr)', cell: (a) => <Link to="/runs/$id/tasks/$task" params={{ id: run.id, task: a.task }}>{a.task}</Link> },
              { title: 'Size', width: '90px', wide: true, cell: (a) => bytes(a.size) },
              { title: 'Kept until', width: '160px', wide: true, cell: (a) => (a.expires_at ? timestamp(a.expires_at, zone) : 'as long as the run') },
              { title: 'Archive', width: '90px', cell: (a) => !a.removed && <a href={artifactPath(run.id, a.task, a.name)} download={`${a.name}.tar.zst`} aria-label={`Download ${a.name} of ${a.task}`}>Download</a> },
            ]}
          />
          {open && !open.removed && (
            <section aria-label={`Files of ${open.name}`}>
              <ArtifactBrowser run={run.id} task={open.task} name={open.name} path={shown.path ?? ''} onPath={(path) => void navigate({ search: { task: open.task, artifact: open.name, path: path || undefined } })} />
            </section>
          )}
        </section>
      )}
      {outputs.length > 0 && (
        <section aria-labelledby="outputs">
          <h2 id="outputs">Outputs</h2>
          <VirtualRows
            label="Outputs" rows={outputs} keyOf={(o) => `${o.task}\n${o.key}`}
            columns={[
              { title: 'Task', width: 'minmax(0, 1fr)', cell: (o) => <Link to="/runs/$id/tasks/$task" params={{ id: run.id, task: o.task }}>{o.task}</Link> },
              { title: 'Output', width: 'minmax(0, 1fr)', cell: (o) => <span className="mono">{o.key}</span> },
              { title: 'Value', width: 'minmax(0, 2fr)', cell: (o) => <span className="mono" title={o.value}>{o.value}</span> },
            ]}
          />
          <p className="more"><Command needs="getRun" group={run.group} text={`drover runs outputs ${quoted(run.id)}`} /></p>
        </section>
      )}
    </div>
  )
}
