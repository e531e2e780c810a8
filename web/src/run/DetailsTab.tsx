import { Link } from '@tanstack/react-router'

import { Command } from '../components/Command'
import { Table } from '../components/Table'
import { useRefusal } from '../lib/session'
import { timestamp, useZone } from '../lib/time'
import { useRun } from '../pages/Run'
import { actorOf, verbOf } from './actors'
import { useRunDialogs } from './Actions'
import { AnnotationList } from './Annotations'
import './DetailsTab.css'
import { textsOf } from './restart'

/** DetailsTab shows what else is known of the run: who did what, its annotations, and what it was given. */
export function DetailsTab() {
  const run = useRun().data
  const open = useRunDialogs()
  const refusal = useRefusal()
  const zone = useZone()
  if (!run) return null
  const actions = [
    ...(run.created_by !== undefined || !run.actions?.some((a) => a.action === 'create') ? [{ action: 'create', actor: run.created_by ?? '', time: run.created_at, task: undefined, reason: undefined, unknown: run.created_by === undefined }] : []),
    ...(run.actions ?? []).filter((a) => a.action !== 'create' || run.created_by === undefined).map((a) => ({ ...a, unknown: false })),
  ]
  return (
    <div className="details-tab">
      <section aria-labelledby="who">
        <h2 id="who">Who did what</h2>
        <Table
          label="Actions" rows={actions} idOf={(a) => `${a.time} ${a.action} ${a.task ?? ''} ${a.actor}`} empty="Nothing is recorded."
          columns={[
            { title: 'When', cell: (a) => timestamp(a.time, zone) },
            { title: 'Who', cell: (a) => (a.unknown ? <span className="muted">not recorded</span> : <strong>{actorOf(a.actor)}</strong>) },
            { title: 'Action', cell: (a) => <>{verbOf(a.action)}{a.task !== undefined && <> <Link to="/runs/$id/tasks/$task" params={{ id: run.id, task: a.task }}>{a.task}</Link></>}{a.reason && <span className="reason">{a.reason}</span>}</> },
          ]}
        />
      </section>
      <section aria-labelledby="annotations">
        <h2 id="annotations">Annotations</h2>
        <AnnotationList annotations={run.annotations} refusal={refusal('putRunAnnotations', run.group)} onEdit={() => open('annotations')} />
      </section>
      <Keys title="Inputs" values={textsOf(run.input_values)} />
      <Keys title="Environment" values={run.environment} />
      {run.secret_names.length > 0 && <section aria-labelledby="secrets"><h2 id="secrets">Secrets</h2><p className="mono">{run.secret_names.join(', ')}</p></section>}
      <section aria-labelledby="facts">
        <h2 id="facts">Run</h2>
        <dl className="keys">
          <div><dt>Id</dt><dd className="mono">{run.id}</dd></div>
          <div><dt>Priority</dt><dd>{run.priority}</dd></div>
          <div><dt>Admission</dt><dd>{run.admission}</dd></div>
          {run.changegroups.length > 0 && <div><dt>Change groups</dt><dd>{run.changegroups.map((g, i) => <span key={g}>{i > 0 && ', '}<Link to="/runs" search={{ changegroup: g }}>{g}</Link></span>)}</dd></div>}
          {run.restarted_from && <div><dt>Restart of</dt><dd><Link className="mono" to="/runs/$id" params={{ id: run.restarted_from }}>{run.restarted_from}</Link> (<Link to="/runs/$id/spec" params={{ id: run.id }} search={{ view: 'diff' }}>difference</Link>)</dd></div>}
          {run.restarted_as && run.restarted_as.length > 0 && <div><dt>Restarted as</dt><dd>{run.restarted_as.map((id, i) => <span key={id}>{i > 0 && ', '}<Link className="mono" to="/runs/$id" params={{ id }}>{id}</Link></span>)}</dd></div>}
        </dl>
        <p><Command needs="getRun" group={run.group} text={`drover runs get ${run.id}`} /></p>
      </section>
    </div>
  )
}

function Keys({ title, values }: { title: string; values: Readonly<Record<string, string>> }) {
  const list = Object.entries(values).sort(([a], [b]) => (a < b ? -1 : 1))
  if (list.length === 0) return null
  return (
    <section aria-label={title}>
      <h2>{title}</h2>
      <dl className="keys">{list.map(([k, v]) => <div key={k}><dt className="mono">{k}</dt><dd className="mono">{v}</dd></div>)}</dl>
    </section>
  )
}
