import { getRouteApi, Link } from '@tanstack/react-router'

import { Loaded } from '../components/Loaded'
import { State } from '../components/State'
import { StatusBadge } from '../components/Status'
import { Table } from '../components/Table'
import { Stamp } from '../components/Time'
import { span } from '../lib/span'
import { outcome } from '../lib/status'
import { Details } from './Details'
import { runChanges, useLiveQuery } from './live'
import { scheduleQuery, type Schemas } from './queries'
import { RunLink } from './RunLink'
import { overlaps, when } from './schedule'
import { ScheduleActions } from './ScheduleActions'
import { Section } from './Section'
import { Title } from './Title'

const route = getRouteApi('/operations/schedules/$name')
const list = { to: '/operations/schedules', label: 'Schedules' } as const

/** SchedulePage shows a schedule with its next times, its last firings and its specification. */
export function SchedulePage() {
  const { name } = route.useParams()
  const query = useLiveQuery(scheduleQuery(name), runChanges)
  return (
    <>
      {!query.data && <Title name={name} list={list} />}
      <Loaded query={query}>{(schedule) => <Shown schedule={schedule} />}</Loaded>
    </>
  )
}

function Shown({ schedule: s }: { schedule: Schemas['Schedule'] }) {
  return (
    <>
      <Title name={s.name} list={list} actions={<ScheduleActions schedule={s} all />}>
        <State kind={s.paused ? 'waiting_approval' : 'success'}>{s.paused ? 'paused' : 'active'}</State>
        {s.note && <span>{s.note}</span>}
      </Title>
      <Details
        values={{
          Run: <>{s.run_name} in <Link className="mono" to="/runs" search={{ group: s.group }}>{s.group}</Link></>,
          When: <span className="mono">{when(s)}</span>,
          'If the previous run is open': overlaps[s.overlap],
          'Random delay': s.jitter && `up to ${span(s.jitter)}`,
          'Not before': s.start_at && <Stamp at={s.start_at} of={s} />,
          'Not after': s.end_at && <Stamp at={s.end_at} of={s} />,
          'After an outage': s.catchup_window && `fires up to ${span(s.catchup_window)} late`,
          'When a run fails': s.pause_on_failure && 'the schedule is paused',
          Fired: s.fired === 1 ? 'once' : `${s.fired} times`,
          Skipped: s.overlap_skipped + s.catchup_missed > 0 && `${s.overlap_skipped} because a run was open, ${s.catchup_missed} because they were too late`,
          Secrets: s.secret_names?.length ? s.secret_names.join(', ') : null,
          Changed: <Stamp at={s.updated_at} />,
        }}
      />
      <div className="columns">
        <Section title="Next">
          {s.paused && <p className="intro">The schedule is paused: it does not fire at these times.</p>}
          {s.next.length === 0 ? <div className="empty">No upcoming runs.</div> : <ol className="queue">{s.next.map((at) => <li key={at}><Stamp at={at} of={s} /></li>)}</ol>}
        </Section>
        <Section title="Last firings">
          <Table
            label="Last firings" rows={s.recent ?? []} idOf={(f) => f.for + f.at} empty="It has not fired yet."
            columns={[
              { title: 'For', cell: (f) => <Stamp at={f.for} of={s} /> },
              { title: 'Run', cell: (f) => (f.run ? <RunLink id={f.run} /> : <span className="reason">{f.error ?? 'no run'}</span>) },
              { title: 'Result', cell: (f) => f.phase && <StatusBadge {...outcome({ phase: f.phase, result: f.result ?? 'unknown' })} /> },
            ]}
          />
        </Section>
      </div>
      {s.spec !== undefined && <Section title="Specification"><pre className="code" tabIndex={0}>{JSON.stringify(s.spec, null, 2)}</pre></Section>}
    </>
  )
}
