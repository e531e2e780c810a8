import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'

import { Loaded } from '../components/Loaded'
import { Table } from '../components/Table'
import { timestamp, useZone } from '../lib/time'
import { fleetEventsQuery } from './queries'
import { Section } from './Section'

const pageSize = 20

/** FleetEvents shows what happened in a fleet, newest first. */
export function FleetEvents({ name }: { name: string }) {
  const query = useQuery(fleetEventsQuery(name))
  const zone = useZone()
  const [most, setMost] = useState(pageSize)
  return (
    <Section title="Events">
      <Loaded query={query}>
        {(events) => (
          <>
            <Table
              label="Events" rows={events.toReversed().slice(0, most)} idOf={(e) => String(e.number)} empty="Nothing has happened yet."
              columns={[
                { title: 'Time', cell: (e) => <time className="mono" dateTime={e.at}>{timestamp(e.at, zone)}</time> },
                { title: 'Event', cell: (e) => <>{e.text}<span className="reason">{e.kind.replaceAll('_', ' ')}{e.reason && `, ${e.reason.replaceAll('_', ' ')}`}</span></> },
                { title: 'Instance', cell: (e) => e.name ?? (e.instance ? `#${e.instance}` : null) },
                { title: 'By', cell: (e) => e.by },
              ]}
            />
            {events.length > most && <div className="pager"><button onClick={() => setMost(most + 100)}>Show more</button></div>}
          </>
        )}
      </Loaded>
    </Section>
  )
}
