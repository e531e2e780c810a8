import { useState } from 'react'

import { Act } from '../components/Act'
import { Check, TextField } from '../components/Field'
import { counted } from '../lib/counted'
import type { Schemas } from './queries'

/** ExecutorActions drain, resume and delete an executor. */
export function ExecutorActions({ executor }: { executor: Schemas['Executor'] }) {
  return (
    <>
      <Drain executor={executor} />
      <Act when={executor.state === 'draining'} label="Resume" needs="drainExecutor" changes={['executors']} act={(api) => api.POST('/api/v1/executors/{id}/drain', { params: { path: { id: executor.id } }, body: { resume: true } })} />
      <Delete executor={executor} />
    </>
  )
}

function Drain({ executor }: { executor: Schemas['Executor'] }) {
  const [reason, setReason] = useState('')
  return (
    <Act
      when={executor.state === 'online' || executor.state === 'offline'} label="Drain" needs="drainExecutor" title={`Drain ${executor.id}`} changes={['executors']}
      confirm={<p>{executor.tasks === 0 ? 'It has no task, and takes none until you resume it.' : `It continues its ${counted(executor.tasks, 'task')}, and takes no other until you resume it.`}</p>}
      act={(api) => api.POST('/api/v1/executors/{id}/drain', { params: { path: { id: executor.id } }, body: { resume: false, reason: reason || undefined } })}
      onDone={() => setReason('')}
    >
      <TextField label="Reason" hint="Shown with the executor." maxLength={500} value={reason} onChange={setReason} />
    </Act>
  )
}

function Delete({ executor }: { executor: Schemas['Executor'] }) {
  const [reason, setReason] = useState('')
  const [force, setForce] = useState(false)
  const inContact = executor.state !== 'offline'
  return (
    <Act
      when={executor.state !== 'removed'} label="Delete" needs="removeExecutor" title={`Delete ${executor.id}`} danger changes={['executors']}
      confirm={
        <>
          <p>This is permanent: no executor with the ID {executor.id} can register again, and a process with it stops its tasks and removes their environments.</p>
          {executor.tasks === 0
            ? <p>It has no task.</p>
            : <p>It has {counted(executor.tasks, 'task')}. {executor.set ? `The other members of the executor set ${executor.set} adopt them.` : <>Each fails, or is retried if its <code>on_executor_lost</code> says so.</>}</p>}
        </>
      }
      onOpen={() => setForce(false)}
      act={(api) => api.DELETE('/api/v1/executors/{id}', { params: { path: { id: executor.id }, query: { force, reason: reason || undefined } } })}
      onDone={() => setReason('')}
    >
      <TextField label="Reason" hint="Shown with the tasks that end." maxLength={500} value={reason} onChange={setReason} />
      {inContact && executor.tasks > 0 && (
        <Check label="Delete it although it has tasks" hint="It stops them when it learns that it was deleted; another attempt may have begun by then. To let them finish, drain it instead." checked={force} onChange={setForce} />
      )}
    </Act>
  )
}
