import { getRouteApi, Link } from '@tanstack/react-router'
import { useState } from 'react'

import { Act } from '../components/Act'
import { TextField } from '../components/Field'
import { Loaded } from '../components/Loaded'
import { PagedTable } from '../components/PagedTable'
import { Time } from '../components/Time'
import { useSession } from '../lib/session'
import { useLiveQuery } from '../operations/live'
import { approvalsQuery, type Schemas } from '../operations/queries'
import { decidersOf, decisionRefusal } from '../run/approval'

const route = getRouteApi('/approvals')

/** Approvals lists the tasks that wait for approval, in all runs that the user sees. */
export function Approvals() {
  const { after } = route.useSearch()
  const query = useLiveQuery(approvalsQuery(after))
  return (
    <>
      <h1>Approvals</h1>
      <p className="muted">Tasks that start when enough people have approved them.</p>
      <Loaded query={query}>
        {(page) => (
          <PagedTable
            to="/approvals" after={after} next={page.next_after}
            label="Approvals" rows={page.approvals} idOf={(a) => `${a.run}/${a.task}`} empty={<h2>No task waits for approval.</h2>}
            columns={[
              { title: 'Task', cell: (a) => <Link to="/runs/$id/tasks/$task" params={{ id: a.run, task: a.task }}><strong>{a.task}</strong></Link> },
              { title: 'Run', cell: (a) => <><Link to="/runs/$id" params={{ id: a.run }}>{a.run_name}</Link><span className="reason mono">{a.group}</span></> },
              { title: 'Approvals', cell: (a) => <>{a.approved_by.length} of {a.approvers}{a.approved_by.length > 0 && <span className="reason">{a.approved_by.join(', ')}</span>}</> },
              { title: 'Who may decide', cell: (a) => decidersOf(a, a.group) },
              { title: 'Waiting since', cell: (a) => <Time at={a.waiting_since} none="unknown" /> },
              { title: 'Times out', cell: (a) => <Time at={a.expires_at} none="never" /> },
              { title: 'Actions', cell: (a) => <span className="actions"><Decide approval={a} /></span> },
            ]}
          />
        )}
      </Loaded>
    </>
  )
}

function Decide({ approval: a }: { approval: Schemas['Approval'] }) {
  const session = useSession()
  const [reason, setReason] = useState('')
  const params = { path: { id: a.run, task: a.task } }
  return (
    <>
      <Act
        label="Approve" needs="approveTask" group={a.group} refusal={decisionRefusal(session, 'approveTask', a.group, a)} title={`Approve ${a.task}`} primary changes={['approvals']}
        confirm={<p>{a.approvers - a.approved_by.length > 1 ? `The task of ${a.run_name} then waits for ${a.approvers - a.approved_by.length - 1} more.` : `The task of ${a.run_name} then starts.`}</p>}
        act={(api) => api.POST('/api/v1/runs/{id}/tasks/{task}/approve', { params, body: {} })}
      />
      <Act
        label="Reject" needs="rejectTask" group={a.group} refusal={decisionRefusal(session, 'rejectTask', a.group, a)} title={`Reject ${a.task}`} danger changes={['approvals']} onOpen={() => setReason('')}
        confirm={<p>The task of {a.run_name} fails and never runs.</p>}
        act={(api) => api.POST('/api/v1/runs/{id}/tasks/{task}/reject', { params, body: { reason } })}
      >
        <TextField label="Reason" hint="Required; shown with the task." required maxLength={1000} value={reason} onChange={setReason} />
      </Act>
    </>
  )
}
