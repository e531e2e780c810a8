import { Link } from '@tanstack/react-router'
import { useEffect } from 'react'

import { Empty } from '../components/Command'
import { Loaded } from '../components/Loaded'
import { Table } from '../components/Table'
import { sampleFleet } from './demand'
import { FleetActions } from './FleetActions'
import { FleetState } from './FleetState'
import { useLiveQuery } from './live'
import { fleetsQuery } from './queries'

/** Fleets lists all fleets, with their instances by state and the demand. */
export function Fleets() {
  const query = useLiveQuery(fleetsQuery)
  const { data, dataUpdatedAt } = query
  useEffect(() => {
    for (const fleet of data ?? []) sampleFleet(fleet, dataUpdatedAt)
  }, [data, dataUpdatedAt])
  return (
    <>
      <h1 className="visually-hidden">Fleets</h1>
      <Loaded query={query}>
        {(fleets) => (
          <Table
            label="Fleets" rows={fleets} idOf={(f) => f.name} empty={<Empty title="There are no fleets." needs="putFleet" text="drover fleets apply -f fleet.yaml">A fleet creates and deletes machines as the tasks of a pool need them</Empty>}
            columns={[
              { title: 'Fleet', cell: (f) => <><Link to="/operations/fleets/$name" params={{ name: f.name }}><strong>{f.name}</strong></Link><span className="reason">{f.spec.plugin}</span></> },
              { title: 'State', cell: (f) => <><FleetState fleet={f} />{f.reason && <span className="reason">{f.reason}</span>}</> },
              { title: 'Pool', cell: (f) => <Link to="/operations/pools/$name" params={{ name: f.spec.pool }}>{f.spec.pool}</Link> },
              { title: 'Instances', cell: (f) => Object.entries(f.counts).filter(([, n]) => n > 0).map(([state, n]) => `${n} ${state}`).join(', ') || 'none' },
              { title: 'Queued', number: true, cell: (f) => f.status.share ?? 0 },
              { title: 'Slots', cell: (f) => `${f.status.busy ?? 0} in use, ${f.status.free ?? 0} free` },
              { title: 'Actions', cell: (f) => <span className="actions"><FleetActions fleet={f} /></span> },
            ]}
          />
        )}
      </Loaded>
    </>
  )
}
