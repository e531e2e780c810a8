import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'

import { Table, type Column } from '../components/Table'
import { Time } from '../components/Time'
import { ExecutorActions } from './ExecutorActions'
import { ExecutorState } from './ExecutorState'
import type { Schemas } from './queries'
import { Slots } from './Slots'

/** ExecutorTable lists executors, those of one pool without its name. */
export function ExecutorTable({ executors, pool, empty }: { executors: Schemas['Executor'][]; pool?: string; empty: ReactNode }) {
  const poolColumn: Column<Schemas['Executor']> = { title: 'Pool', cell: (e) => <Link to="/operations/pools/$name" params={{ name: e.pool }}>{e.pool}</Link> }
  return (
    <Table
      label="Executors" rows={executors} idOf={(e) => e.id} empty={empty}
      columns={[
        { title: 'Executor', cell: (e) => <><Link to="/operations/executors/$id" params={{ id: e.id }}><strong>{e.id}</strong></Link><span className="reason">{e.driver}, {e.os}/{e.arch}, {e.version}{e.set && `, set ${e.set}`}</span></> },
        { title: 'State', cell: (e) => <><ExecutorState executor={e} />{e.reason && <span className="reason">{e.reason}</span>}</> },
        ...(pool === undefined ? [poolColumn] : []),
        { title: 'Slots', cell: (e) => <Slots used={e.slots_used} of={e.slots} /> },
        { title: 'Tasks', number: true, cell: (e) => e.tasks },
        { title: 'Last contact', cell: (e) => <Time at={e.last_contact} /> },
        { title: 'Actions', cell: (e) => <span className="actions"><ExecutorActions executor={e} /></span> },
      ]}
    />
  )
}
