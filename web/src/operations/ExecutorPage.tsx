import { getRouteApi, Link } from '@tanstack/react-router'

import { Loaded } from '../components/Loaded'
import { Table } from '../components/Table'
import { Stamp, Time } from '../components/Time'
import { span } from '../lib/span'
import { Details } from './Details'
import { ExecutorActions } from './ExecutorActions'
import { ExecutorState } from './ExecutorState'
import { Labels } from './Labels'
import { useLiveQuery } from './live'
import { executorQuery, type Schemas } from './queries'
import { Section } from './Section'
import { Slots } from './Slots'
import { Title } from './Title'

const route = getRouteApi('/operations/executors/$id')

/** ExecutorPage shows an executor with its tasks. */
export function ExecutorPage() {
  const { id } = route.useParams()
  const query = useLiveQuery(executorQuery(id))
  return (
    <>
      {!query.data && <Title name={id} list={list} />}
      <Loaded query={query}>{(executor) => <Shown executor={executor} />}</Loaded>
    </>
  )
}

const list = { to: '/operations/executors', label: 'Executors' } as const

function Shown({ executor: e }: { executor: Schemas['Executor'] }) {
  return (
    <>
      <Title name={e.id} list={list} actions={<ExecutorActions executor={e} />}>
        <ExecutorState executor={e} />
        {e.reason && <span>{e.reason}</span>}
        {e.state === 'draining' && !e.drained && <span>drained when its tasks have ended</span>}
      </Title>
      <Details
        values={{
          Pool: <Link to="/operations/pools/$name" params={{ name: e.pool }}>{e.pool}</Link>,
          Slots: <Slots used={e.slots_used} of={e.slots} />,
          'Last contact': e.state === 'removed' ? <Stamp at={e.last_contact} /> : <Time at={e.last_contact} />,
          Driver: e.driver,
          Platform: `${e.os}/${e.arch}`,
          Version: e.version,
          Features: e.features?.join(', '),
          Labels: <Labels of={e.labels} />,
          'Privileged tasks': e.privileged ? 'allowed' : 'not allowed',
          'Executor set': e.set,
          Temporary: e.temporary && `removed after it was offline for ${e.remove_after ? span(e.remove_after) : 'some time'}`,
          Registered: <Stamp at={e.registered_at} />,
          Removed: e.removed_at && <Stamp at={e.removed_at} />,
        }}
      />
      <Section title={`Tasks (${e.tasks})`}>
        {(e.held?.length ?? 0) < e.tasks && <p className="intro">The {e.held?.length ?? 0} oldest of {e.tasks}.</p>}
        <Table
          label="Tasks" rows={e.held ?? []} idOf={(t) => `${t.run}/${t.task}`} empty="It has no task."
          columns={[
            { title: 'Task', cell: (t) => <Link to="/runs/$id/tasks/$task" params={{ id: t.run, task: t.task }}><strong>{t.task}</strong></Link> },
            { title: 'Run', cell: (t) => <Link className="mono" to="/runs/$id" params={{ id: t.run }}>{t.run}</Link> },
            { title: 'Attempt', number: true, cell: (t) => t.attempt },
            { title: 'Started', cell: (t) => <Time at={t.started_at} none="not yet" /> },
            { title: 'Reason', cell: (t) => t.reason },
          ]}
        />
      </Section>
    </>
  )
}
