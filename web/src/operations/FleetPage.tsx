import { useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useEffect, useMemo, useRef } from 'react'

import { Failed, Loaded } from '../components/Loaded'
import { Stamp, Time } from '../components/Time'
import { clock } from '../lib/clock'
import { sampleFleet } from './demand'
import { Details } from './Details'
import { FleetActions } from './FleetActions'
import { FleetChart } from './FleetChart'
import { FleetEvents } from './FleetEvents'
import { FleetInstances } from './FleetInstances'
import { FleetRollout } from './FleetRollout'
import { FleetState } from './FleetState'
import { Labels } from './Labels'
import { useLiveQuery } from './live'
import { fleetQuery, goneQuery, instancesQuery, type Schemas } from './queries'
import { Section } from './Section'
import { Title } from './Title'

const route = getRouteApi('/operations/fleets/$name')
const list = { to: '/operations/fleets', label: 'Fleets' } as const

/** FleetPage shows a fleet: demand and capacity, the rollout, the ledger of its instances and its events. */
export function FleetPage() {
  const { name } = route.useParams()
  const query = useLiveQuery(fleetQuery(name))
  const { data, dataUpdatedAt } = query
  useEffect(() => {
    if (data) sampleFleet(data, clock.now() - Math.max(0, Date.now() - dataUpdatedAt))
  }, [data, dataUpdatedAt])
  return (
    <>
      {!data && <Title name={name} list={list} />}
      <Loaded query={query}>{(fleet) => <Shown fleet={fleet} />}</Loaded>
    </>
  )
}

/** useLedger returns the instances of a fleet: those that are present, and then those that are gone. */
function useLedger(name: string) {
  const queries = useQueryClient()
  const present = useQuery(instancesQuery(name))
  const gone = useQuery(goneQuery(name))
  const last = useRef<Schemas['FleetInstance'][]>(undefined)
  useEffect(() => {
    const now = new Set(present.data?.map((i) => i.number))
    if (last.current?.some((i) => !now.has(i.number))) void queries.invalidateQueries({ queryKey: goneQuery(name).queryKey })
    last.current = present.data
  }, [queries, name, present.data])
  const data = useMemo(() => {
    if (!present.data || !gone.data) return undefined
    const numbers = new Set(present.data.map((i) => i.number)) // the two were not read at the same time
    return [...present.data, ...gone.data.filter((i) => !numbers.has(i.number))]
  }, [present.data, gone.data])
  return {
    data, error: present.error ?? gone.error, failureReason: present.failureReason ?? gone.failureReason,
    failureCount: Math.max(present.failureCount, gone.failureCount), isFetching: present.isFetching || gone.isFetching,
  }
}

function Shown({ fleet: f }: { fleet: Schemas['Fleet'] }) {
  const ledger = useLedger(f.name)
  return (
    <>
      <Title name={f.name} list={list} actions={<FleetActions fleet={f} all />}>
        <FleetState fleet={f} />
        {f.reason && <span>{f.reason}</span>}
      </Title>
      <Details
        values={{
          Pool: <Link to="/operations/pools/$name" params={{ name: f.spec.pool }}>{f.spec.pool}</Link>,
          Instances: `${f.status.instances ?? 0}, wanted ${f.desired ?? f.status.target ?? 0}${f.status.most ? `, at most ${f.status.most}` : ''}`,
          'Queued tasks': `${f.status.share ?? 0} for this fleet, ${f.status.queued ?? 0} in the pool`,
          Slots: `${f.status.busy ?? 0} in use, ${f.status.free ?? 0} free${f.status.idle ? `, ${f.status.idle} to keep free` : ''}`,
          Plugin: `${f.spec.plugin}${f.status.plugin ? ` ${f.status.plugin}` : ''}`,
          Group: f.status.group,
          'Plugin answered': <Time at={f.status.seen_at} none="never" />,
          'Failed requests in a row': f.status.failures ? String(f.status.failures) : null,
          Priority: f.spec.priority ? String(f.spec.priority) : null,
          'Allowed groups': f.spec.allowed_groups?.join(', '),
          Labels: f.spec.labels && <Labels of={f.spec.labels} />,
          Created: <Stamp at={f.created_at} />,
          Changed: f.updated_at !== f.created_at && <Stamp at={f.updated_at} />,
        }}
      />
      <Section title="Demand and capacity">
        <Failed query={ledger} />
        {ledger.data && <FleetChart fleet={f} instances={ledger.data} />}
      </Section>
      <FleetRollout name={f.name} groups={f.spec.allowed_groups} />
      <Section title="Instances">
        <Loaded query={ledger}>{(instances) => <FleetInstances instances={instances} />}</Loaded>
      </Section>
      <FleetEvents name={f.name} />
    </>
  )
}
