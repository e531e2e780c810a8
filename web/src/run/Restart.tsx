import { useNavigate } from '@tanstack/react-router'
import { useEffect, useMemo, useRef, useState } from 'react'

import type { Run } from '../api/client'
import { ProblemError } from '../api/problem'
import { TextField } from '../components/Field'
import { Modal } from '../components/Modal'
import { ActionFooter } from '../components/Outcome'
import { Pairs, pairsOf, recordOf, type Pair } from '../components/Pairs'
import { VirtualRows } from '../components/VirtualRows'
import { randomKey } from '../lib/random'
import { kindOf, statusLabels } from '../lib/status'
import { appliesTo } from '../runs/bulk'
import { useRunAct } from './queries'
import { restartable, restartBody, restartFaults, restartFields, textsOf, type Filled, type RestartChoice } from './restart'

/** RestartPreset is what the button chose that opened the dialog. */
export interface RestartPreset {
  tasks?: string[]
}

/** Restart creates a new run from a final one: of all tasks, of those that failed, or of chosen ones. */
export function Restart({ run, preset, open, onClose }: { run: Run; preset?: RestartPreset; open: boolean; onClose: () => void }) {
  const navigate = useNavigate()
  const failed = appliesTo('restart-failed', run)
  const [from, setFrom] = useState<RestartChoice['from']>('start')
  const [tasks, setTasks] = useState<ReadonlySet<string>>(new Set())
  const [pairs, setPairs] = useState<Pair[]>([])
  const [inputs, setInputs] = useState<Record<string, string>>({})
  const [secrets, setSecrets] = useState<Record<string, string>>({})
  // A call that is repeated after a lost answer creates no second run.
  const key = useRef<{ body: string; key: string }>(undefined)
  // biome-ignore lint/correctness/useExhaustiveDependencies: an event does not change what the user edits
  useEffect(() => {
    if (!open) return
    setFrom(preset?.tasks ? 'tasks' : failed ? 'failed' : 'start')
    setTasks(new Set(preset?.tasks))
    setPairs(pairsOf(run.environment))
    setInputs(textsOf(run.input_values))
    setSecrets({})
    key.current = undefined
  }, [open])
  const [sent, setSent] = useState<Filled>({ inputs, secrets })
  const action = useRunAct(run.id, async (api) => {
    setSent({ inputs, secrets })
    const body = restartBody(run, { from, tasks, environment: recordOf(pairs), inputs, secrets })
    const text = JSON.stringify(body)
    if (key.current?.body !== text) key.current = { body: text, key: randomKey() }
    const { data } = await api.POST('/api/v1/runs/{id}/restart', { params: { path: { id: run.id }, header: { 'Idempotency-Key': key.current.key } }, body })
    return data
  }, (created) => {
    onClose()
    if (created) void navigate({ to: '/runs/$id', params: { id: created.id } })
  })
  const faults = restartFaults((action.error instanceof ProblemError && action.error.problem.errors) || [], sent, { inputs, secrets })
  const fields = useMemo(() => restartFields(run), [run])
  const kept = Object.keys(run.environment).filter((k) => !pairs.some((p) => p.key.trim() === k))
  return (
    <Modal title={`Restart ${run.name} #${run.counter}`} open={open} onClose={onClose} action={action} wide>
      <form onSubmit={(e) => { e.preventDefault(); action.run() }}>
        <fieldset>
          <legend>What runs</legend>
          <From value="start" now={from} onChange={setFrom}>all tasks, from the start</From>
          <From value="failed" now={from} onChange={setFrom} disabled={!failed}>what failed or was stopped, and the tasks that depend on it</From>
          <From value="tasks" now={from} onChange={setFrom}>chosen tasks, and the tasks that depend on them</From>
        </fieldset>
        {from === 'tasks' && <Choose run={run} chosen={tasks} onChange={setTasks} />}
        {Object.keys(inputs).length > 0 && (
          <fieldset>
            <legend>Inputs</legend>
            {Object.entries(inputs).map(([name, value]) => (
              <TextField key={name} label={name} value={value} fault={faults.inputs.get(name)} onChange={(v) => setInputs({ ...inputs, [name]: v })} />
            ))}
          </fieldset>
        )}
        <fieldset>
          <legend>Environment</legend>
          <Pairs pairs={pairs} onChange={setPairs} keyLabel="Variable" valueLabel="Value" add="Add a variable" />
          {kept.length > 0 && <p className="reason">A variable that is removed here keeps its old value: {kept.join(', ')}. To clear it, leave its value empty.</p>}
        </fieldset>
        {run.secret_names.length > 0 && (
          <fieldset>
            <legend>Secrets</legend>
            {run.secret_names.map((name) => (
              <TextField key={name} label={name} secret placeholder="unchanged" value={secrets[name] ?? ''} fault={faults.secrets.get(name)} onChange={(v) => setSecrets({ ...secrets, [name]: v })} />
            ))}
          </fieldset>
        )}
        <ActionFooter action={action} repeatable fields={fields} onClose={onClose}>
          <button className="primary" disabled={action.waiting || (from === 'tasks' && tasks.size === 0)}>Restart</button>
        </ActionFooter>
      </form>
    </Modal>
  )
}

function From({ value, now, onChange, disabled, children }: { value: RestartChoice['from']; now: string; onChange: (v: RestartChoice['from']) => void; disabled?: boolean; children: string }) {
  return <label className="choice"><input type="radio" name="from" checked={now === value} disabled={disabled} onChange={() => onChange(value)} /> <span className={disabled ? 'muted' : undefined}>{children}</span></label>
}

function Choose({ run, chosen, onChange }: { run: Run; chosen: ReadonlySet<string>; onChange: (tasks: ReadonlySet<string>) => void }) {
  const [search, setSearch] = useState('')
  const names = useMemo(() => restartable(run), [run])
  const rows = useMemo(() => {
    const needle = search.toLowerCase()
    return names.filter((n) => n.toLowerCase().includes(needle))
  }, [names, search])
  const toggle = (name: string, on: boolean) => {
    const next = new Set(chosen)
    if (on) next.add(name)
    else next.delete(name)
    onChange(next)
  }
  return (
    <fieldset className="pick">
      <legend>Tasks <span className="muted">{chosen.size} chosen</span></legend>
      <input type="search" placeholder="search tasks" aria-label="Search tasks" value={search} onChange={(e) => setSearch(e.target.value)} />
      <VirtualRows
        label="Tasks to choose from" rows={rows} keyOf={(n) => n} rowHeight={30}
        columns={[
          { title: 'Task', width: '1fr', cell: (n) => <label className="choice"><input type="checkbox" checked={chosen.has(n)} onChange={(e) => toggle(n, e.target.checked)} /> {n}{!run.tasks?.[n] && <span className="muted"> all of it</span>}</label> },
          { title: 'Status', width: '130px', cell: (n) => <span className="muted">{run.tasks?.[n] && statusLabels[kindOf(run.tasks[n])]}</span> },
        ]}
      />
    </fieldset>
  )
}
