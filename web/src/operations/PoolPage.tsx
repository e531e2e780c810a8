import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'

import { Act } from '../components/Act'
import { Loaded } from '../components/Loaded'
import { Table } from '../components/Table'
import { useRefusal } from '../lib/session'
import { Details } from './Details'
import { ExecutorTable } from './ExecutorTable'
import { FleetState } from './FleetState'
import { Labels } from './Labels'
import { useLiveQuery } from './live'
import { PoolForm } from './PoolForm'
import { PoolState } from './Pools'
import { executorsQuery, fleetsQuery, poolQuery, type Schemas } from './queries'
import { Section } from './Section'
import { Slots } from './Slots'
import { Title } from './Title'

const route = getRouteApi('/operations/pools/$name')
const list = { to: '/operations/pools', label: 'Pools' } as const

/** PoolPage shows a pool with its executors and fleets. */
export function PoolPage() {
  const { name } = route.useParams()
  const query = useLiveQuery(poolQuery(name))
  return (
    <>
      {!query.data && <Title name={name} list={list} />}
      <Loaded query={query}>{(pool) => <Shown pool={pool} />}</Loaded>
    </>
  )
}

function Shown({ pool: p }: { pool: Schemas['Pool'] }) {
  const navigate = useNavigate()
  const refusal = useRefusal()
  return (
    <>
      <Title
        name={p.name} list={list}
        actions={
          <>
            <PoolForm pool={p} />
            <Act
              label="Delete" needs="deletePool" title={`Delete the pool ${p.name}`} danger changes={['pools']}
              confirm={<p>A pool with executors, a fleet or unfinished tasks is not deleted. An executor that registers for the pool later creates it again.</p>}
              act={(api) => api.DELETE('/api/v1/pools/{name}', { params: { path: { name: p.name } } })} onDone={() => void navigate({ to: '/operations/pools' })}
            />
          </>
        }
      >
        <PoolState pool={p} />
        {p.default && <span>default pool</span>}
      </Title>
      <Details
        values={{
          Slots: <Slots used={p.slots_used} of={p.slots} />,
          'Queued tasks': String(p.queued),
          'Running tasks': p.max_running ? `${p.running} of at most ${p.max_running}` : String(p.running),
          Driver: p.driver,
          Platform: p.os || p.arch ? [p.os, p.arch].filter(Boolean).join('/') : 'any',
          Labels: <Labels of={p.labels} />,
          'Memory of a slot': p.flavor.memory,
          Features: p.features?.join(', '),
          'Privileged tasks': p.privileged ? 'allowed' : 'not allowed',
          'Exec sessions in tasks': p.exec === 'forbidden' ? 'forbidden' : 'allowed',
          'Allowed groups': p.allowed_groups?.join(', '),
          ...Object.fromEntries(p.fleet_groups?.map((f) => [`Allowed groups of fleet ${f.fleet}`, f.allowed_groups.join(', ')]) ?? []),
          'Image of tasks without one': p.image,
          'Allowed images': p.allowed_images?.join(', '),
          'Allowed images of services': p.allowed_service_images?.join(', '),
          'Allowed pull policies': p.allowed_pull_policies?.join(', '),
          'Allowed persistent volumes': p.allowed_volumes?.join(', '),
          'Allowed host paths': p.allowed_host_paths?.join(', '),
          'Allowed devices': p.allowed_devices?.join(', '),
          'Image rewrites': Object.entries(p.image_rewrites ?? {}).map(([from, to]) => `${from} → ${to}`).join(', '),
          'Credentials for registries': Object.keys(p.registries ?? {}).join(', '),
          Shared: p.shared && 'by runs that do not trust each other',
        }}
      />
      {p.kubernetes && Object.keys(p.kubernetes).length > 0 && (
        <Section title="Pods"><pre className="code" tabIndex={0}>{JSON.stringify(p.kubernetes, null, 2)}</pre></Section>
      )}
      {refusal('listExecutors') ? null : <Executors pool={p} />}
      {refusal('listFleets') ? null : <Fleets pool={p} />}
    </>
  )
}

function Executors({ pool: p }: { pool: Schemas['Pool'] }) {
  const executors = useLiveQuery(executorsQuery)
  return (
    <Section title="Executors">
      <Loaded query={executors}>
        {(all) => <ExecutorTable pool={p.name} executors={all.filter((e) => e.pool === p.name)} empty={<>No executor has registered for the pool{p.queued > 0 ? `, and ${p.queued} of its tasks wait` : ''}.</>} />}
      </Loaded>
    </Section>
  )
}

function Fleets({ pool: p }: { pool: Schemas['Pool'] }) {
  const fleets = useLiveQuery(fleetsQuery)
  return (
    <Section title="Fleets">
      <Loaded query={fleets}>
        {(all) => (
          <Table
            label="Fleets" rows={all.filter((f) => f.spec.pool === p.name)} idOf={(f) => f.name} empty="No fleet creates machines for the pool."
            columns={[
              { title: 'Fleet', cell: (f) => <Link to="/operations/fleets/$name" params={{ name: f.name }}><strong>{f.name}</strong></Link> },
              { title: 'State', cell: (f) => <FleetState fleet={f} /> },
              { title: 'Priority', number: true, cell: (f) => f.spec.priority ?? 0 },
            ]}
          />
        )}
      </Loaded>
    </Section>
  )
}
