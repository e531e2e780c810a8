import { getRouteApi, Link } from '@tanstack/react-router'

import { Empty } from '../components/Command'
import { Loaded } from '../components/Loaded'
import { State } from '../components/State'
import { PagedTable } from '../components/PagedTable'
import { Stamp } from '../components/Time'
import { runChanges, useLiveQuery } from './live'
import { schedulesQuery } from './queries'
import { when } from './schedule'
import { ScheduleActions } from './ScheduleActions'

const route = getRouteApi('/operations/schedules')

/** Schedules lists the schedules by name, a page at a time. */
export function Schedules() {
  const { after } = route.useSearch()
  const query = useLiveQuery(schedulesQuery(after), runChanges)
  return (
    <>
      <h1 className="visually-hidden">Schedules</h1>
      <Loaded query={query}>
        {(page) => (
          <PagedTable
            to="/operations/schedules" after={after} next={page.next_after}
            label="Schedules" rows={page.schedules} idOf={(s) => s.name} empty={<Empty title="There are no schedules." needs="putSchedule" text="drover schedules apply -f schedule.yaml">A schedule creates runs at its times</Empty>}
            columns={[
              { title: 'Schedule', cell: (s) => <><Link to="/operations/schedules/$name" params={{ name: s.name }}><strong>{s.name}</strong></Link><span className="reason">{s.run_name} in {s.group}</span></> },
              { title: 'When', cell: (s) => <span className="mono">{when(s)}</span> },
              { title: 'State', cell: (s) => <><State kind={s.paused ? 'waiting_approval' : 'success'}>{s.paused ? 'paused' : 'active'}</State>{s.note && <span className="reason">{s.note}</span>}</> },
              { title: 'Next', cell: (s) => (s.paused ? <span className="muted">paused</span> : <Stamp at={s.next[0]} none="none" of={s} />) },
              { title: 'Fired', number: true, cell: (s) => s.fired },
              { title: 'Actions', cell: (s) => <span className="actions"><ScheduleActions schedule={s} /></span> },
            ]}
          />
        )}
      </Loaded>
    </>
  )
}
