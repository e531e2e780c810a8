import { Link } from '@tanstack/react-router'
import { useState } from 'react'

import { State, type Kind } from '../components/State'
import { Table } from '../components/Table'
import { Time } from '../components/Time'
import { between, duration, useNow } from '../lib/time'
import type { Schemas } from './queries'

type Instance = Schemas['FleetInstance']

const kinds: Record<Instance['state'], Kind> = {
  requested: 'running', creating: 'running', bootstrapping: 'running', ready: 'success', draining: 'waiting_approval',
  deleting: 'waiting_approval', ignored: 'quiet', gone: 'quiet',
}

const pageSize = 50

/** FleetInstances shows the ledger: what the fleet requested, and what became of it. */
export function FleetInstances({ instances }: { instances: readonly Instance[] }) {
  const [gone, setGone] = useState(false)
  const [most, setMost] = useState(pageSize)
  const rows = instances.filter((i) => gone === (i.state === 'gone')).sort((a, b) => b.number - a.number)
  return (
    <>
      <div className="filters" role="group" aria-label="Instances to show">
        <button aria-pressed={!gone} className={gone ? undefined : 'primary'} onClick={() => { setGone(false); setMost(pageSize) }}>Present</button>
        <button aria-pressed={gone} className={gone ? 'primary' : undefined} onClick={() => { setGone(true); setMost(pageSize) }}>Gone</button>
      </div>
      <Table
        label="Instances" rows={rows.slice(0, most)} idOf={(i) => String(i.number)} empty={gone ? 'No instance is gone.' : 'The fleet has no instance.'}
        columns={[
          { title: 'Instance', cell: (i) => <><strong>{i.instance ?? 'no machine yet'}</strong> <span className="muted">#{i.number}</span>{i.cause !== 'requested' && <span className="reason">{i.cause}</span>}</> },
          { title: 'State', cell: (i) => <><State kind={kinds[i.state]}>{i.state}</State>{i.message && <span className="reason">{i.message}</span>}{i.missing_from && <span className="reason">The plugin does not list it since <Time at={i.missing_from} />.</span>}</> },
          { title: 'Executor', cell: (i) => i.executor && (i.state === 'gone' ? i.executor : <Link to="/operations/executors/$id" params={{ id: i.executor }}>{i.executor}</Link>) },
          { title: 'Tasks', number: true, cell: (i) => `${i.tasks ?? 0}, ${i.uses ?? 0} so far` },
          { title: 'Revision', number: true, cell: (i) => i.revision },
          { title: 'Requested', cell: (i) => <Time at={i.requested_at} /> },
          { title: 'Ready after', cell: (i) => (i.ready_at ? duration(between(i.requested_at, i.ready_at) ?? 0) : <span className="muted">not ready</span>) },
          { title: gone ? 'Lived' : 'Age', number: true, cell: (i) => <Age from={i.created_at ?? i.requested_at} to={i.gone_at} /> },
        ]}
      />
      {rows.length > most && <div className="pager"><button onClick={() => setMost(most + 200)}>Show more ({rows.length - most})</button></div>}
    </>
  )
}

function Age({ from, to }: { from: string; to?: string }) {
  const now = useNow()
  return <>{duration(between(from, to, now) ?? 0)}</>
}
