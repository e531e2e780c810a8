import { useNavigate } from '@tanstack/react-router'
import { createContext, useCallback, useContext, useState, type ReactNode } from 'react'

import type { Run } from '../api/client'
import { Button } from '../components/Button'
import { Modal } from '../components/Modal'
import { ActionFooter } from '../components/Outcome'
import { useRefusal } from '../lib/session'
import { appliesTo, over } from '../runs/bulk'
import { actOn } from '../runs/calls'
import { Annotations } from './Annotations'
import { Decide } from './Decide'
import { useRunAct } from './queries'
import { Restart, type RestartPreset } from './Restart'

type Kind = 'start' | 'stop' | 'kill' | 'delete' | 'restart' | 'annotations' | 'decide'
type Open = (kind: Kind, preset?: RestartPreset) => void

const OpenContext = createContext<Open>(() => {})

/** useRunDialogs returns the function that opens a dialog of the run page. */
export const useRunDialogs = () => useContext(OpenContext)

/** RunDialogs has the dialogs of the page of a run, which buttons anywhere on it open. */
export function RunDialogs({ run, children }: { run: Run; children: ReactNode }) {
  const [shown, setShown] = useState<{ kind: Kind; preset?: RestartPreset }>()
  const open = useCallback<Open>((kind, preset) => setShown({ kind, preset }), [])
  const close = useCallback(() => setShown(undefined), [])
  return (
    <OpenContext value={open}>
      {children}
      {simple.map((kind) => <Confirm key={kind} kind={kind} run={run} open={shown?.kind === kind} onClose={close} />)}
      <Restart run={run} preset={shown?.preset} open={shown?.kind === 'restart'} onClose={close} />
      <Decide run={run} tasks={shown?.preset?.tasks ?? []} open={shown?.kind === 'decide'} onClose={close} />
      <Annotations run={run} open={shown?.kind === 'annotations'} onClose={close} />
    </OpenContext>
  )
}

const simple = ['start', 'stop', 'kill', 'delete'] as const
type Simple = (typeof simple)[number]

const texts: Record<Simple, { title: string; text: (run: Run) => string; button: string; danger?: boolean }> = {
  start: { title: 'Start the run?', text: () => 'It runs as soon as its change groups have free slots.', button: 'Start' },
  stop: { title: 'Stop the run?', text: (run) => (run.phase === 'queued' ? 'It is queued: it is cancelled, and never runs. It can be restarted as a new run.' : 'Its tasks are stopped. Steps that clean up still run, and tasks with finally begin after all others have ended.'), button: 'Stop', danger: true },
  kill: { title: 'Stop the run by force?', text: () => 'Its tasks are killed now. No step cleans up, and tasks with finally are ended or skipped.', button: 'Stop by force', danger: true },
  delete: { title: 'Delete the run?', text: (run) => `${run.name} #${run.counter} is deleted for good, with its logs and artifacts.`, button: 'Delete', danger: true },
}

function Confirm({ kind, run, open, onClose }: { kind: Simple; run: Run; open: boolean; onClose: () => void }) {
  const navigate = useNavigate()
  const { title, text, button, danger } = texts[kind]
  const action = useRunAct(run.id, (api) => actOn(api, kind, run.id, ''), () => {
    onClose()
    if (kind === 'delete') void navigate({ to: '/runs' })
  })
  return (
    <Modal title={title} open={open} onClose={onClose} action={action}>
      <p>{text(run)}</p>
      <ActionFooter action={action} onClose={onClose}>
        <button className={danger ? 'danger' : 'primary'} disabled={action.waiting} onClick={() => action.run()}>{button}</button>
      </ActionFooter>
    </Modal>
  )
}

/** Actions are the buttons of the run: those that fit its phase. */
export function Actions({ run }: { run: Run }) {
  const open = useRunDialogs()
  const refusal = useRefusal()
  return (
    <div className="actions">
      {appliesTo('start', run) && <Button refusal={refusal('startRun', run.group)} className="primary" onClick={() => open('start')}>Start …</Button>}
      {appliesTo('stop', run) && <Button refusal={refusal('stopRun', run.group)} className="danger" onClick={() => open('stop')}>Stop …</Button>}
      {run.phase === 'running' && run.stop_requested && <Button refusal={refusal('stopRun', run.group)} className="danger" onClick={() => open('kill')}>Stop by force …</Button>}
      {over(run) && <Button refusal={refusal('restartRun', run.group)} onClick={() => open('restart')}>Restart …</Button>}
      {over(run) && <Button refusal={refusal('deleteRun', run.group)} className="danger" onClick={() => open('delete')}>Delete …</Button>}
    </div>
  )
}
