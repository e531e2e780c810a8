import { useEffect, useState } from 'react'

import type { Run } from '../api/client'
import { Button } from '../components/Button'
import { Modal } from '../components/Modal'
import { ActionFooter } from '../components/Outcome'
import { Pairs, pairsOf, recordOf, type Pair } from '../components/Pairs'
import { useRunAct } from './queries'

/** Annotations edits the annotations of a run, or of a task of it. */
export function Annotations({ run, task, open, onClose }: { run: Run; task?: string; open: boolean; onClose: () => void }) {
  const current = task === undefined ? run.annotations : (run.tasks?.[task]?.annotations ?? {})
  const [pairs, setPairs] = useState<Pair[]>([])
  const [before, setBefore] = useState('')
  // biome-ignore lint/correctness/useExhaustiveDependencies: an event does not change what the user edits
  useEffect(() => {
    if (!open) return
    setPairs(pairsOf(current))
    setBefore(JSON.stringify(current))
  }, [open])
  const action = useRunAct(run.id, async (api) => {
    const body = recordOf(pairs)
    if (task === undefined) await api.PUT('/api/v1/runs/{id}/annotations', { params: { path: { id: run.id } }, body })
    else await api.PUT('/api/v1/runs/{id}/tasks/{task}/annotations', { params: { path: { id: run.id, task } }, body })
  }, onClose)
  return (
    <Modal title={task === undefined ? 'Annotations of the run' : `Annotations of ${task}`} open={open} onClose={onClose} action={action} wide>
      <form onSubmit={(e) => { e.preventDefault(); action.run() }}>
        <Pairs pairs={pairs} onChange={setPairs} keyLabel="Key" valueLabel="Value" add="Add an annotation" />
        {open && before !== JSON.stringify(current) && <p className="notice" role="status">The annotations have changed since this dialog was opened. Saving replaces them all.</p>}
        <ActionFooter action={action} repeatable onClose={onClose}>
          <button className="primary" disabled={action.waiting}>Save</button>
        </ActionFooter>
      </form>
    </Modal>
  )
}

/** AnnotationList shows annotations, as text. */
export function AnnotationList({ annotations, refusal, onEdit }: { annotations: Readonly<Record<string, string>>; refusal?: string; onEdit?: () => void }) {
  const list = Object.entries(annotations).sort(([a], [b]) => (a < b ? -1 : 1))
  return (
    <>
      {list.length === 0 ? <p className="muted">None.</p> : <dl className="keys">{list.map(([k, v]) => <div key={k}><dt>{k}</dt><dd>{v}</dd></div>)}</dl>}
      {onEdit && <Button refusal={refusal} onClick={onEdit}>Edit annotations …</Button>}
    </>
  )
}
