import { Link } from '@tanstack/react-router'
import { useEffect, useMemo, useRef, useState } from 'react'

import { outcomeOf, useAction } from '../api/action'
import type { Run } from '../api/client'
import { Button } from '../components/Button'
import { Modal } from '../components/Modal'
import { ActionFooter } from '../components/Outcome'
import { randomKey } from '../lib/random'
import { useRefusal } from '../lib/session'
import { fitting, inBatches, type BulkAction, type Fitting } from './bulk'
import { actOn } from './calls'

const actions: readonly { action: BulkAction; label: string; text: string; danger?: boolean }[] = [
  { action: 'start', label: 'Start', text: 'They run as soon as their change groups have free slots.' },
  { action: 'stop', label: 'Stop', text: 'Queued runs are cancelled, and never run. The tasks of running ones are stopped; steps that clean up still run.', danger: true },
  { action: 'kill', label: 'Stop by force', text: 'Their tasks are killed now, and no step cleans up.', danger: true },
  { action: 'restart', label: 'Restart', text: 'A new run of all tasks is created for each.' },
  { action: 'restart-failed', label: 'Restart from failed', text: 'A new run is created for each: of what failed or was stopped, and the tasks that depend on it.' },
  { action: 'delete', label: 'Delete', text: 'They are deleted for good, with their logs and artifacts.', danger: true },
]

/** The calls that are made at a time. */
const parallel = 4

interface Outcome {
  state: 'done' | 'failed'
  text?: string
  created?: string
}

/** Bulk acts on the selected runs, and says for each run what became of it. */
export function Bulk({ pages, selected, onSelect }: { pages: readonly { runs: Run[] }[]; selected: ReadonlySet<string>; onSelect: (selected: ReadonlySet<string>) => void }) {
  const [chosen, setChosen] = useState<BulkAction>()
  // A selected run may have left the pages in memory. What is known of it is kept.
  const known = useRef(new Map<string, Run>())
  const runs = useMemo(() => {
    const next = new Map<string, Run>()
    for (const id of selected) {
      const old = known.current.get(id)
      if (old) next.set(id, old)
    }
    for (const page of pages) for (const run of page.runs) if (selected.has(run.id)) next.set(run.id, run)
    known.current = next
    return [...next.values()]
  }, [pages, selected])
  const refusal = useRefusal()
  return (
    <>
      {runs.length > 0 && (
        <div className="bulk" role="toolbar" aria-label="Selected runs">
          <strong>{runs.length} selected</strong>
          {actions.map((a) => {
            const { may, mayNot, refusal: lacks } = fitting(a.action, runs, refusal)
            if (may.length + mayNot.length === 0 || (a.action === 'kill' && !runs.some((r) => r.phase === 'running' && r.stop_requested))) return null
            return (
              <Button key={a.action} refusal={may.length === 0 ? lacks : undefined} className={a.danger ? 'danger' : undefined} onClick={() => setChosen(a.action)}>
                {a.label} {may.length > 0 && may.length < runs.length && `(${may.length})`} …
              </Button>
            )
          })}
          <button onClick={() => onSelect(new Set())}>Select none</button>
        </div>
      )}
      <Confirm action={chosen} runs={runs} onClose={() => setChosen(undefined)} />
    </>
  )
}

function Confirm({ action, runs, onClose }: { action?: BulkAction; runs: readonly Run[]; onClose: () => void }) {
  const refusal = useRefusal()
  const [{ may: on, mayNot, refusal: lacks }, setOn] = useState<Fitting>({ may: [], mayNot: [] })
  const [outcomes, setOutcomes] = useState<ReadonlyMap<string, Outcome>>(new Map())
  const keys = useRef(new Map<string, string>())
  // biome-ignore lint/correctness/useExhaustiveDependencies: the runs are those of the moment when the user chose the action
  useEffect(() => {
    if (!action) return
    setOn(fitting(action, runs, refusal))
    setOutcomes(new Map())
    keys.current = new Map(runs.map((r) => [r.id, randomKey()]))
  }, [action])
  const left = on.filter((r) => outcomes.get(r.id)?.state !== 'done')
  const act = useAction({
    act: (api, kind: BulkAction, signal) => inBatches(left, parallel, async (run) => {
      if (signal.aborted) return
      let outcome: Outcome
      try {
        outcome = { state: 'done', created: await actOn(api, kind, run.id, keys.current.get(run.id)!) }
      } catch (error) {
        outcome = { state: 'failed', text: outcomeOf(error) }
      }
      setOutcomes((old) => new Map(old).set(run.id, outcome))
    }),
    changes: [['runs']],
  })
  const what = actions.find((a) => a.action === action)
  const others = runs.length - on.length - mayNot.length
  const begun = outcomes.size > 0 || act.waiting
  const done = begun && !act.waiting
  const failed = [...outcomes.values()].filter((o) => o.state === 'failed').length
  return (
    <Modal title={what ? `${what.label}: ${on.length} ${on.length === 1 ? 'run' : 'runs'}` : ''} open={action !== undefined} onClose={onClose} action={act} wide>
      {what && (
        <>
          <p>{what.text}{others > 0 && ` ${others} of the selected runs are left out: it does not apply to them.`}</p>
          {mayNot.length > 0 && <p>{mayNot.length} of the selected runs {mayNot.length === 1 ? 'is' : 'are'} left out: you may not do it there. {lacks}</p>}
          {begun && <p role="status"><strong>{outcomes.size} of {on.length}</strong>{failed > 0 && `, ${failed} failed`}</p>}
          <ul className="bulk-runs" tabIndex={0} aria-label="Runs">
            {on.slice(0, 600).map((r) => {
              const o = outcomes.get(r.id)
              return (
                <li key={r.id}>
                  <span>{r.name} <span className="muted">#{r.counter} {r.group}</span></span>
                  {o && (
                    <span className="status" data-kind={o.state === 'done' ? 'success' : 'failed'}>
                      <i aria-hidden="true"><b>{o.state === 'done' ? '✓' : '✕'}</b></i>
                      <span>{o.created ? <Link to="/runs/$id" params={{ id: o.created }}>new run</Link> : (o.text ?? 'done')}</span>
                    </span>
                  )}
                </li>
              )
            })}
          </ul>
          <ActionFooter action={act} onClose={onClose}>
            {(!done || left.length > 0) && <button className={what.danger ? 'danger' : 'primary'} disabled={act.waiting || left.length === 0} onClick={() => act.run(what.action)}>{done ? `Try ${left.length} again` : what.label}</button>}
          </ActionFooter>
        </>
      )}
    </Modal>
  )
}
