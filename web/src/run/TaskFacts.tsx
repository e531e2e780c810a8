import { Link } from '@tanstack/react-router'
import { useState } from 'react'

import type { Run, Task } from '../api/client'
import { Button } from '../components/Button'
import { Command } from '../components/Command'
import { useRefusal, useSession } from '../lib/session'
import { quoted } from '../lib/shell'
import { timestamp, useZone } from '../lib/time'
import { over } from '../runs/bulk'
import { AnnotationList, Annotations } from './Annotations'
import { useRunDialogs } from './Actions'
import { decidersOf, decisionRefusal } from './approval'
import { slotsOf } from './tasks'
import { Decide } from './Decide'
import './DetailsTab.css'

interface Props {
  run: Run
  name: string
  task: Task
}

/** TaskActions are the buttons of a task. */
export function TaskActions({ run, name, task }: Props) {
  const open = useRunDialogs()
  const refusal = useRefusal()
  const session = useSession()
  const [decide, setDecide] = useState(false)
  return (
    <div className="actions">
      {task.status === 'waiting_approval' && <Button refusal={decisionRefusal(session, 'rejectTask', run.group, task.approval)} className="primary" onClick={() => setDecide(true)}>Approve or reject …</Button>}
      {over(run) && <Button refusal={refusal('restartRun', run.group)} onClick={() => open('restart', { tasks: [name] })}>Restart this task …</Button>}
      <Decide run={run} tasks={[name]} open={decide} onClose={() => setDecide(false)} />
    </div>
  )
}

/** ChangeGroup links to the page of a change group, or to its runs if the user may not see that. */
function ChangeGroup({ name }: { name: string }) {
  return useRefusal()('getChangeGroup') === undefined
    ? <Link to="/operations/changegroups/$name" params={{ name }}>{name}</Link>
    : <Link to="/runs" search={{ changegroup: name }}>{name}</Link>
}

/** TaskFacts shows what else is known of a task: its approvals, change groups, outputs and annotations. */
export function TaskFacts({ run, name, task }: Props) {
  const zone = useZone()
  const [edit, setEdit] = useState(false)
  const refusal = useRefusal()
  const session = useSession()
  const approval = task.approval
  const outputs = Object.keys(task.outputs).length
  const annotations = Object.keys(task.annotations).length
  const decisions = (run.actions ?? []).filter((a) => a.task === name)
  return (
    <>
      {approval && (
        <p className="facts">
          <span>{approval.approved_by.length} of {approval.approvers} {approval.approvers === 1 ? 'approval' : 'approvals'}</span>
          {decisions.map((d) => <span key={`${d.time} ${d.actor}`}>{d.action === 'reject' ? 'rejected' : 'approved'} by <b>{d.actor || 'Drover'}</b> {timestamp(d.time, zone)}{d.reason && `: ${d.reason}`}</span>)}
          {decisions.length === 0 && approval.approved_by.length > 0 && <span>approved by <b>{approval.approved_by.join(', ')}</b></span>}
          {task.status === 'waiting_approval' && <span>waits for {decidersOf(approval, run.group)}</span>}
          {task.status === 'waiting_approval' && approval.expires_at && <span>times out {timestamp(approval.expires_at, zone)}</span>}
          {task.status === 'waiting_approval' && !decisionRefusal(session, 'approveTask', run.group, approval) && <Command needs="approveTask" group={run.group} text={`drover runs approve ${run.id} ${quoted(name)}`} />}
        </p>
      )}
      {task.changegroups && (
        <p className="facts">
          <span>Change groups: {task.changegroups.map(({ name: group, units }, i) => <span key={group}>{i > 0 && ', '}<ChangeGroup name={group} />{units > 1 && ` (${units} slots)`}</span>)}</span>
          {slotsOf(task) && <span>{slotsOf(task)}</span>}
        </p>
      )}
      <details className="task-facts">
        <summary>Outputs ({outputs}) and annotations ({annotations})</summary>
        {outputs > 0 && <dl className="keys">{Object.entries(task.outputs).map(([k, v]) => <div key={k}><dt className="mono">{k}</dt><dd className="mono">{v}</dd></div>)}</dl>}
        <AnnotationList annotations={task.annotations} refusal={refusal('putTaskAnnotations', run.group)} onEdit={() => setEdit(true)} />
      </details>
      <Annotations run={run} task={name} open={edit} onClose={() => setEdit(false)} />
    </>
  )
}
