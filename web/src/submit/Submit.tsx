import { useQuery } from '@tanstack/react-query'
import { getRouteApi, useNavigate } from '@tanstack/react-router'
import { useDeferredValue, useEffect, useMemo, useRef, useState } from 'react'

import { useAction } from '../api/action'
import { api, apiUntil } from '../api/client'
import { messageOf, ProblemError, problemOf } from '../api/problem'
import type { components } from '../api/schema.gen'
import { Button } from '../components/Button'
import { Loaded } from '../components/Loaded'
import { Outcome } from '../components/Outcome'
import { below } from '../lib/base'
import { unchanged } from '../lib/faults'
import { refusalOf, submitPaths, type Session } from '../lib/permissions'
import { useRefusal, useSession } from '../lib/session'
import type { Schema } from './complete'
import { clearDraft, readDraft, writeDraft } from './draft'
import { Editor, type EditorHandle, type Fault } from './Editor'
import { admissionOf, inputFaults, inputsOf, fileOf, newKey, withChanges, type Input } from './file'
import { groupOf, withGroup } from './group'
import { GroupField, useGroups } from './GroupField'
import { InputForm } from './InputForm'
import './submit.css'
import { templates } from './templates'

const route = getRouteApi('/submit')

/** How long after the last key the server checks the file. */
const checkMillis = 300

type Check = { of: string; valid?: components['schemas']['Validation']; faults: readonly Fault[]; error?: unknown }

/** Submit is the page where a run file is written, checked as one types, and submitted. */
export function Submit() {
  const { from, template } = route.useSearch()
  const session = useSession()
  const spec = useQuery({
    queryKey: ['spec', from],
    enabled: !!from,
    queryFn: async ({ signal }) => fileOf((await api.GET('/api/v1/runs/{id}/spec', { signal, params: { path: { id: from! } } })).data),
  })
  if (from && !spec.data) return <Loaded query={spec} loading="Loading the run file …">{() => null}</Loaded>
  const first = templates.find((t) => t.name === template) ?? templates[0]!
  return <Page key={from ?? first.name} of={from ?? first.name} begin={from ? spec.data! : ownGroup(first.text, session)} name={from ? undefined : first.name} />
}

/** ownGroup moves a template to the groups of the user: one that may be submitted nowhere is of no use as a template. */
function ownGroup(text: string, session: Session): string {
  const group = groupOf(text)
  const [own] = submitPaths(session)
  return group && own && refusalOf(session, 'createRun', group) ? withGroup(text, own + group) : text
}

function Page({ of, begin, name }: { of: string; begin: string; name?: string }) {
  const navigate = useNavigate()
  const by = useSession().subject
  const [draft, setDraft] = useState(() => readDraft(by, of))
  const [text, setText] = useState(draft?.text ?? begin)
  const [values, setValues] = useState(draft?.values ?? noValues)
  const editor = useRef<EditorHandle>(null)
  const schema = useQuery({ queryKey: ['schema'], queryFn: async ({ signal }) => readSchema(signal) })
  const check = useCheck(text)
  // While a file has faults, the form keeps the inputs that it had.
  const [inputs, setInputs] = useState<Readonly<Record<string, Input>>>({})
  if (check?.valid && check.valid.inputs !== inputs) setInputs(check.valid.inputs)
  const chosen = useMemo(() => Object.fromEntries(Object.entries(values).filter(([n]) => n in inputs)), [values, inputs])
  const written = useDeferredValue(text)
  const admission = useMemo(() => admissionOf(written), [written])
  const group = useMemo(() => groupOf(written), [written])
  const fileInputs = useMemo(() => inputsOf(written), [written])
  const groups = useGroups()
  const refusal = useRefusal()('createRun', group)

  // The same file that is sent again, because the answer was lost, makes no second run.
  const key = useRef({ body: '', key: '' })
  const [sent, setSent] = useState(noValues)
  const submit = useAction({
    act: async (api, admission: 'auto' | 'manual') => {
      setSent(chosen)
      const body = withChanges(text, { values: chosen, admission: admission === admissionOf(text) ? undefined : admission })
      if (key.current.body !== body) key.current = { body, key: newKey() }
      const { data } = await api.POST('/api/v1/runs', {
        params: { header: { 'Idempotency-Key': key.current.key } }, headers: { 'Content-Type': 'application/yaml' }, body: body as never, bodySerializer: (b: unknown) => b as string,
      })
      return data!
    },
    changes: [],
    patience: 600_000, // a large file, by a slow line
    onDone: (run) => {
      clearDraft()
      void navigate({ to: '/runs/$id', params: { id: run.id } })
    },
  })
  const send = (how: 'auto' | 'manual') => { if (!submit.waiting && refusal === undefined) submit.run(how) }
  const faults = check?.faults ?? none
  const warnings = check?.valid?.warnings ?? none
  const refused = submit.error instanceof ProblemError ? submit.error.problem.errors : undefined
  const { ofInputs, others } = useMemo(() => inputFaults(refused ?? none, inputs, fileInputs, sent), [refused, inputs, fileInputs, sent])
  // A field is marked until its value changes.
  const marked = unchanged(ofInputs, sent, chosen)
  useLeaveWarning(text !== begin && !submit.done)
  useEffect(() => {
    if (submit.done) return
    if (text === begin) clearDraft()
    else writeDraft({ by, of, text, values })
  }, [by, of, text, values, begin, submit.done])
  const discard = () => {
    setDraft(undefined)
    setText(begin)
    setValues(noValues)
  }

  return (
    <div className="submit">
      <header className="head">
        <h1>Submit a run</h1>
        <label>
          Template{' '}
          <select value={name ?? ''} onChange={(e) => {
            if (text === begin || window.confirm('Replace what you wrote by the template?')) void navigate({ to: '/submit', search: { template: e.target.value } })
          }}>
            {name === undefined && <option value="">the run that you copied</option>}
            {templates.map((t) => <option key={t.name} value={t.name}>{t.name}</option>)}
          </select>
        </label>
        {name && <p className="muted about">{templates.find((t) => t.name === name)?.about}</p>}
      </header>
      <Editor ref={editor} text={text} schema={schema.data} groups={groups} faults={faults} warnings={warnings} onText={setText} onSubmit={() => send(admission)} />
      <aside aria-label="Check and submit">
        {draft && draft.text !== begin && (
          <p className="notice" role="status">This is what you wrote before, and did not submit. <button type="button" onClick={discard}>Discard it</button></p>
        )}
        <Verdict check={check} current={check?.of === text} onLine={(line) => editor.current?.goTo(line)} />
        {Object.keys(inputs).length > 0 && <InputForm inputs={inputs} file={fileInputs} values={chosen} faults={marked} onChange={setValues} />}
        <GroupField group={group} groups={groups} onChange={(to) => setText(withGroup(text, to))} />
        <div className="actions">
          <Button refusal={refusal} className="primary" disabled={submit.waiting} title="Ctrl+Enter submits as the file says" onClick={() => send('auto')}>{submit.waiting ? 'Submitting …' : 'Start now'}</Button>
          <Button refusal={refusal} disabled={submit.waiting} onClick={() => send('manual')} title="The run stays queued until a user starts it">Create only</Button>
          {submit.slow && <button type="button" onClick={submit.withdraw}>Stop waiting</button>}
        </div>
        {refused ? (
          <div className="notice failed" role="alert">
            <strong>{messageOf(submit.error)}</strong>
            {ofInputs.size > 0 && <ul className="faults">{[...ofInputs].map(([n, detail]) => <li key={n}><span>Input <span className="mono">{n}</span>: {detail}</span></li>)}</ul>}
            <Faults faults={others} onLine={(line) => editor.current?.goTo(line)} />
          </div>
        ) : <Outcome action={submit} repeatable />}
        <p className="muted hint">Completion: Ctrl+Space. Next fault: F8. Submit: Ctrl+Enter.</p>
      </aside>
    </div>
  )
}

const none: readonly Fault[] = []
const noValues: Readonly<Record<string, string>> = {}

async function readSchema(signal: AbortSignal): Promise<Schema> {
  const answer = await fetch(below('/schemas/run.json'), { signal })
  if (!answer.ok) throw await problemOf(answer)
  return (await answer.json()) as Schema
}

/** useCheck asks the server what is wrong with a file, a moment after it changed. */
function useCheck(text: string): Check | undefined {
  const [check, setCheck] = useState<Check>()
  const [again, setAgain] = useState(0)
  useEffect(() => {
    const abort = new AbortController()
    let retry = 0
    const timer = window.setTimeout(async () => {
      try {
        const { data } = await apiUntil().POST('/api/v1/validate', {
          signal: abort.signal, headers: { 'Content-Type': 'application/yaml' }, body: text as never, bodySerializer: (b: unknown) => b as string,
        })
        setCheck({ of: text, valid: data!, faults: none })
      } catch (error) {
        if (abort.signal.aborted) return
        const problem = error instanceof ProblemError ? error : undefined
        if (problem && (problem.status === 400 || problem.status === 422)) {
          setCheck({ of: text, faults: problem.problem.errors?.length ? problem.problem.errors : [{ path: '', code: problem.code, detail: problem.message }] })
          return
        }
        setCheck({ of: text, faults: none, error })
        retry = window.setTimeout(() => setAgain((n) => n + 1), 3_000)
      }
    }, checkMillis)
    return () => {
      window.clearTimeout(timer)
      window.clearTimeout(retry)
      abort.abort()
    }
  }, [text, again])
  return check
}

function Verdict({ check, current, onLine }: { check?: Check; current: boolean; onLine: (line: number) => void }) {
  if (!check) return <p className="verdict muted" role="status">Checking …</p>
  const { valid, faults, error } = check
  return (
    <div className="verdict" data-stale={!current} role="status">
      {error !== undefined && <p className="status" data-kind="failed">The file could not be checked: {messageOf(error)}</p>}
      {faults.length > 0 && <><h2 className="bad">{faults.length === 1 ? '1 fault' : `${faults.length} faults`}</h2><Faults faults={faults} onLine={onLine} /></>}
      {valid && (
        <>
          <h2 className="good">Valid</h2>
          <p><b>{valid.name}</b> in <span className="mono">{valid.group}</span>, {valid.tasks.toLocaleString('en')} {valid.tasks === 1 ? 'task' : 'tasks'}</p>
          {!!valid.warnings?.length && <><h2 className="warn">{valid.warnings.length === 1 ? '1 warning' : `${valid.warnings.length} warnings`}</h2><Faults faults={valid.warnings} onLine={onLine} /></>}
        </>
      )}
    </div>
  )
}

function Faults({ faults, onLine }: { faults: readonly Fault[]; onLine: (line: number) => void }) {
  return (
    <ul className="faults">
      {faults.slice(0, 50).map((f, i) => (
        <li key={i}>
          {f.line ? <button type="button" onClick={() => onLine(f.line!)}>line {f.line}</button> : null}
          <span>{f.path && <span className="mono">{f.path}: </span>}{f.detail}</span>
        </li>
      ))}
      {faults.length > 50 && <li className="muted">and {faults.length - 50} more</li>}
    </ul>
  )
}

/** useLeaveWarning makes the browser ask before it throws away what the user wrote. */
function useLeaveWarning(changed: boolean) {
  useEffect(() => {
    if (!changed) return
    const ask = (e: BeforeUnloadEvent) => e.preventDefault()
    window.addEventListener('beforeunload', ask)
    return () => window.removeEventListener('beforeunload', ask)
  }, [changed])
}
