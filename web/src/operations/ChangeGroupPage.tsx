import { useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useState } from 'react'

import type { Run } from '../api/client'
import { Act } from '../components/Act'
import { Choice, NumberField } from '../components/Field'
import { Loaded } from '../components/Loaded'
import { StatusBadge } from '../components/Status'
import { Time } from '../components/Time'
import { outcome } from '../lib/status'
import { changeGroupPolicies, heldOf, takenOf, waitingOf } from './changegroup'
import { Details } from './Details'
import { runChanges, slotChanges, useLiveQuery } from './live'
import { changeGroupQuery, changeGroupRunsQuery, type Schemas } from './queries'
import { RunLink } from './RunLink'
import { Section } from './Section'
import { Slots } from './Slots'
import { Title } from './Title'

const route = getRouteApi('/operations/changegroups/$name')
const list = { to: '/operations/changegroups', label: 'Change groups' } as const

/** ChangeGroupPage shows which runs and tasks hold the slots of a change group, and which wait, in their order. */
export function ChangeGroupPage() {
  const { name } = route.useParams()
  const query = useLiveQuery(changeGroupQuery(name), slotChanges)
  return (
    <>
      {!query.data && <Title name={name} list={list} />}
      <Loaded query={query}>{(group) => <Shown group={group} />}</Loaded>
    </>
  )
}

function Shown({ group: g }: { group: Schemas['ChangeGroup'] }) {
  const runs = useLiveQuery(changeGroupRunsQuery(g.name), runChanges)
  const byId = new Map(runs.data?.map((r) => [r.id, r]))
  const held = heldOf(g)
  const holding = g.holding_tasks ?? []
  const waiting = g.waiting_tasks ?? []
  return (
    <>
      <Title name={g.name} list={list} actions={<Edit group={g} />}>
        <Link to="/runs" search={{ changegroup: g.name }}>All runs of the change group</Link>
      </Title>
      <Details
        values={{
          'Slots held': g.max_running === 0 ? `${held}, no limit` : <Slots used={held} of={g.max_running} />,
          Waiting: String(waitingOf(g)),
          'If no slot is free': changeGroupPolicies[g.on_busy],
        }}
      />
      {(g.holding_tasks || g.waiting_tasks) && (
        <div className="columns">
          <Section title={`Tasks that hold slots (${firstOf(holding)})`}><TaskQueue slots={holding} limit={g.max_running} empty="No task holds a slot." /></Section>
          <Section title={`Tasks that wait (${waitingOf(g) - g.queued.length})`}><TaskQueue slots={waiting} limit={g.max_running} empty="No task waits." /></Section>
        </div>
      )}
      <div className="columns">
        <Section title={`Hold a slot (${g.running.length})`}><Queue ids={g.running} runs={byId} empty="No run holds a slot." /></Section>
        <Section title={`Queue (${g.queued.length})`}><Queue ids={g.queued} runs={byId} empty="No run waits." /></Section>
      </div>
    </>
  )
}

const pageSize = 100

/** How many tasks the gateway lists, of those that hold slots and of those that wait. */
const maxTasks = 1_000
const firstOf = (tasks: readonly unknown[]) => (tasks.length < maxTasks ? String(tasks.length) : `the first ${maxTasks.toLocaleString()}`)

/** TaskQueue shows tasks in their order. */
function TaskQueue({ slots, limit, empty }: { slots: readonly Schemas['TaskSlots'][]; limit: number; empty: string }) {
  const [most, setMost] = useState(pageSize)
  if (slots.length === 0) return <div className="empty">{empty}</div>
  return (
    <>
      <ol className="queue">
        {slots.slice(0, most).map((s, i) => (
          <li key={`${s.run}/${s.task}`}>
            <span className="position">{i + 1}</span>
            <Link to="/runs/$id/tasks/$task" params={{ id: s.run, task: s.task }}><strong>{s.task}</strong></Link>
            <RunLink id={s.run} />
            {takenOf(s.units, limit) > 1 && <span className="muted">{takenOf(s.units, limit)} slots</span>}
          </li>
        ))}
      </ol>
      {slots.length > most && <div className="pager"><button onClick={() => setMost(most + 500)}>Show more ({slots.length - most})</button></div>}
    </>
  )
}

/** Queue shows runs in their order. */
function Queue({ ids, runs, empty }: { ids: readonly string[]; runs: ReadonlyMap<string, Run>; empty: string }) {
  const [most, setMost] = useState(pageSize)
  if (ids.length === 0) return <div className="empty">{empty}</div>
  return (
    <>
      <ol className="queue">
        {ids.slice(0, most).map((id, i) => {
          const run = runs.get(id)
          return (
            <li key={id}>
              <span className="position">{i + 1}</span>
              {run ? <><Link to="/runs/$id" params={{ id }}><strong>{run.name}</strong> <span className="muted">#{run.counter}</span></Link><StatusBadge {...outcome(run)} /><span className="muted"><Time at={run.started_at ?? run.created_at} /></span></> : <RunLink id={id} />}
            </li>
          )
        })}
      </ol>
      {ids.length > most && <div className="pager"><button onClick={() => setMost(most + 500)}>Show more ({ids.length - most})</button></div>}
    </>
  )
}

/** Edit changes the limit. The update token of the group, as the user saw it, protects the change of another user. */
function Edit({ group }: { group: Schemas['ChangeGroup'] }) {
  const queries = useQueryClient()
  const [limit, setLimit] = useState('')
  const [policy, setPolicy] = useState<Schemas['OnBusy']>('queue')
  const [token, setToken] = useState<string>()
  const present = () => queries.getQueryData(changeGroupQuery(group.name).queryKey) ?? group
  return (
    <Act
      label="Edit" needs="putChangeGroup" submit="Save" title={`Edit the change group ${group.name}`} changes={['changegroups']}
      confirm={
        <p>
          Its limit is {group.max_running === 0 ? 'not set' : group.max_running}; slots held: {heldOf(group)}, waiting: {waitingOf(group)}.
          A lower limit stops nothing: new runs and tasks wait until enough others have ended. A higher limit admits waiting ones.
        </p>
      }
      onOpen={() => {
        const { max_running, on_busy, changegroup_token } = present()
        setLimit(String(max_running))
        setPolicy(on_busy)
        setToken(changegroup_token)
      }}
      onReload={() => setToken(present().changegroup_token)}
      act={(api) => api.PUT('/api/v1/changegroups/{name}', { params: { path: { name: group.name } }, body: { max_running: Number(limit), on_busy: policy, changegroup_token: token } })}
    >
      <NumberField label="Running at most" hint="0 is no limit." max={1_000_000} value={limit} onChange={setLimit} />
      <Choice label="If no slot is free" value={policy} options={Object.entries(changeGroupPolicies) as [Schemas['OnBusy'], string][]} onChange={setPolicy} />
    </Act>
  )
}
