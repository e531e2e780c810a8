import { Link } from '@tanstack/react-router'

import { Loaded } from '../components/Loaded'
import { State } from '../components/State'
import { Table } from '../components/Table'
import { Labels } from './Labels'
import { useLiveQuery } from './live'
import { PoolForm } from './PoolForm'
import { poolsQuery, type Schemas } from './queries'
import { Slots } from './Slots'

/** Pools lists all pools, with what waits for them. */
export function Pools() {
  const query = useLiveQuery(poolsQuery)
  return (
    <>
      <h1 className="visually-hidden">Pools</h1>
      <Loaded query={query}>
        {(pools) => (
          <Table
            label="Pools" rows={pools} idOf={(p) => p.name} empty={<><h2>There are no pools.</h2><p>An executor that registers creates its pool.</p></>}
            columns={[
              { title: 'Pool', cell: (p) => <><Link to="/operations/pools/$name" params={{ name: p.name }}><strong>{p.name}</strong></Link>{p.default && <span className="muted"> default</span>}<span className="reason">{p.driver}{p.os && `, ${p.os}`}{p.arch && `/${p.arch}`}</span></> },
              { title: 'Executors', cell: (p) => <PoolState pool={p} /> },
              { title: 'Labels', cell: (p) => <Labels of={p.labels} /> },
              { title: 'Slots', cell: (p) => <Slots used={p.slots_used} of={p.slots} /> },
              { title: 'Queued', number: true, cell: (p) => p.queued },
              { title: 'Running', number: true, cell: (p) => (p.max_running ? `${p.running} of at most ${p.max_running}` : p.running) },
              { title: 'Actions', cell: (p) => <span className="actions"><PoolForm pool={p} /></span> },
            ]}
          />
        )}
      </Loaded>
    </>
  )
}

/** PoolState says how many executors of a pool there are, by state. */
export function PoolState({ pool }: { pool: Schemas['Pool'] }) {
  const parts = [`${pool.online} online`, pool.draining > 0 && `${pool.draining} draining`, pool.offline > 0 && `${pool.offline} offline`].filter(Boolean)
  const kind = pool.online > 0 ? (pool.offline > 0 ? 'waiting_approval' : 'success') : pool.queued > 0 || pool.offline > 0 ? 'failed' : 'quiet'
  return <State kind={kind}>{parts.join(', ')}</State>
}
