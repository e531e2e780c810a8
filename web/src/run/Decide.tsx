import { useEffect, useState } from 'react'

import { outcomeOf } from '../api/action'
import type { Run } from '../api/client'
import { Button } from '../components/Button'
import { Modal } from '../components/Modal'
import { ActionFooter } from '../components/Outcome'
import { useSession } from '../lib/session'
import { inBatches } from '../runs/bulk'
import { decidersOf, decisionRefusal } from './approval'
import { useRunAct } from './queries'

interface Props {
  run: Run
  /** The tasks that wait for approval. */
  tasks: readonly string[]
  open: boolean
  onClose: () => void
}

/** Decide approves or rejects tasks, with a comment. A rejection needs one: it is what others learn of the task. */
export function Decide({ run, tasks, open, onClose }: Props) {
  const session = useSession()
  const [comment, setComment] = useState('')
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const [failures, setFailures] = useState<string[]>([])
  // biome-ignore lint/correctness/useExhaustiveDependencies: tasks that begin to wait are not chosen by themselves
  useEffect(() => {
    if (!open) return
    setComment('')
    setFailures([])
    setChosen(new Set(tasks.length === 1 ? tasks : []))
  }, [open])
  const action = useRunAct(run.id, async (api, approved: boolean, signal) => {
    const failed: string[] = []
    const left = new Set(chosen)
    await inBatches([...chosen], 4, async (task) => {
      if (signal.aborted) return // the task stays chosen
      const params = { path: { id: run.id, task } }
      try {
        if (approved) await api.POST('/api/v1/runs/{id}/tasks/{task}/approve', { params, body: { comment: comment.trim() || undefined } })
        else await api.POST('/api/v1/runs/{id}/tasks/{task}/reject', { params, body: { reason: comment.trim() } })
        left.delete(task)
      } catch (error) {
        failed.push(`${task}: ${outcomeOf(error)}`)
      }
    })
    setFailures(failed)
    setChosen(left)
    return left.size === 0
  }, (all) => { if (all) onClose() })
  const approval = tasks.length === 1 ? run.tasks?.[tasks[0]!]?.approval : undefined
  const none = chosen.size === 0
  return (
    <Modal title={tasks.length === 1 ? `Approve ${tasks[0]}?` : 'Approve tasks'} open={open} onClose={onClose} action={action}>
      {approval && (
        <p className="muted">
          {approval.approved_by.length} of {approval.approvers} {approval.approvers === 1 ? 'approval' : 'approvals'} given{approval.approved_by.length > 0 && ` by ${approval.approved_by.join(', ')}`}.
          {' '}It waits for {decidersOf(approval, run.group)}.
        </p>
      )}
      {tasks.length > 1 && (
        <fieldset>
          <legend>Tasks</legend>
          <label className="choice"><input type="checkbox" checked={chosen.size === tasks.length} onChange={(e) => setChosen(new Set(e.target.checked ? tasks : []))} /> all {tasks.length}</label>
          <div className="scroll">
            {tasks.slice(0, 200).map((t) => (
              <label key={t} className="choice">
                <input type="checkbox" checked={chosen.has(t)} onChange={(e) => setChosen((old) => { const next = new Set(old); if (e.target.checked) next.add(t); else next.delete(t); return next })} /> {t}
              </label>
            ))}
          </div>
        </fieldset>
      )}
      <label className="field">
        Comment
        <textarea value={comment} maxLength={1000} onChange={(e) => setComment(e.target.value)} aria-describedby="decide-help" />
        <span className="reason" id="decide-help">A rejection needs a comment: the task fails with it.</span>
      </label>
      {failures.length > 0 && <ul role="alert" className="reason">{failures.map((f) => <li key={f}>{f}</li>)}</ul>}
      <ActionFooter action={action} onClose={onClose}>
        <button className="danger" disabled={none || action.waiting || comment.trim() === ''} onClick={() => action.run(false)}>Reject</button>
        <Button refusal={approval && decisionRefusal(session, 'approveTask', run.group, approval)} className="primary" disabled={none || action.waiting} onClick={() => action.run(true)}>Approve</Button>
      </ActionFooter>
    </Modal>
  )
}
