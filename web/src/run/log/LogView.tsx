import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState, type KeyboardEvent, type RefObject } from 'react'

import type { Task } from '../../api/client'
import { ProblemError } from '../../api/problem'
import { Failure } from '../../components/Notice'
import { usePreference } from '../../lib/preference'
import { between, duration, useZone } from '../../lib/time'
import { failingLine } from './failing'
import { LogBar, Toggle } from './LogBar'
import { LogLine } from './LogLine'
import './log.css'
import type { Range } from './range'
import { Rows } from './rows'
import type { LogStore } from './store'
import { logAddress, useLog } from './useLog'
import { useScroll } from './useScroll'
import { useSearch } from './useSearch'

/** How many lines at the end of a failed step are looked at for the one that says why. */
const failingLines = 400

interface Props {
  run: string
  name: string
  task: Task
  attempt?: number
  /** The service whose output is shown in place of the task's log. */
  service?: string
  onService: (service?: string) => void
  /** The lines that the address of the page names. */
  range?: Range
  onRange: (range: Range) => void
}

/**
 * LogView shows a log of any length: only the lines in view are in the document, and only the parts near them in memory.
 * It opens at the lines of the address, at the line that failed, or at the end of a log that grows.
 */
export function LogView({ run, name, task, attempt, service, onService, range, onRange }: Props) {
  const log = useLog(run, name, attempt, service)
  const { store } = log
  const [folded, setFolded] = useState<ReadonlySet<number>>(new Set())
  const [wrap, setWrap] = usePreference('log.wrap')
  const [times, setTimes] = usePreference('log.times')
  const zone = useZone()
  const frame = useRef<HTMLElement>(null)
  const scroller = useRef<HTMLDivElement>(null)
  const box = useRef<HTMLDivElement>(null)
  const input = useRef<HTMLInputElement>(null)

  const rows = useMemo(() => new Rows(store.sections.slice(), store.length, folded), [store, store.sections.length, store.length, folded])
  const scroll = useScroll(scroller, box, rows.length, wrap)
  const current = useRef({ rows, scroll })
  useLayoutEffect(() => { current.current = { rows, scroll } })

  /** goTo shows a line, from 0, also of a section that is folded. */
  const goTo = useCallback((line: number) => {
    const { rows, scroll } = current.current
    const section = rows.sectionOf(line)
    if (section >= 0 && rows.isFolded(section)) {
      setFolded((old) => new Set([...old].filter((s) => s !== rows.sections[section]!.line)))
      requestAnimationFrame(() => current.current.scroll.goTo(current.current.rows.rowOf(line)))
      return
    }
    scroll.goTo(rows.rowOf(line))
  }, [])
  const topLine = useCallback(() => lineAt(current.current.rows, current.current.scroll.top), [])
  const search = useSearch(run, name, attempt, service, topLine, goTo)

  useRestOfWindow(frame)
  const { failing, wants } = useOpening(log, rows, service === undefined ? task : undefined, range, goTo, scroll.toEnd)
  useEffect(() => {
    if (rows.length > 0) log.want(...(wants ?? [lineAt(rows, scroll.top), lineAt(rows, scroll.bottom)]))
  })

  const found = search.found && search.found.at >= 0 ? search.found.lines[search.found.at] : undefined
  const pick = useCallback((line: number, extend: boolean) => {
    const from = extend && range ? range.first : line
    onRange({ first: Math.min(from, line), last: Math.max(from, line) })
  }, [range, onRange])
  const fold = (section: number) => setFolded((old) => {
    const key = rows.sections[section]!.line
    const next = new Set(old)
    if (!next.delete(key)) next.add(key)
    return next
  })
  const onKeyDown = (e: KeyboardEvent) => {
    if (e.target instanceof HTMLInputElement || e.ctrlKey || e.metaKey || e.altKey) return
    if (e.key === '/') {
      e.preventDefault()
      input.current?.focus()
    }
    if ((e.key === 'n' || e.key === 'N') && search.found) search.next(search.found.text, e.key === 'N')
  }

  const drawn = []
  for (let row = scroll.first; row <= scroll.last; row++) {
    const at = rows.at(row)
    if (at.kind === 'head') {
      drawn.push(<Head key={`s${at.section}`} rows={rows} section={at.section} task={task} service={service} onFold={fold} />)
      continue
    }
    const line = store.at(at.line)
    drawn.push(
      <LogLine key={at.line} number={at.line + 1} text={line?.text} note={line?.note} time={line?.time} zone={times ? zone : undefined}
        marked={!!range && range.first <= at.line + 1 && at.line < range.last} failing={failing === at.line} found={found === at.line}
        search={search.found?.text ?? ''} onPick={pick} />,
    )
  }
  const raw = logAddress(run, name, attempt, service)
  const download = new URL(raw)
  download.searchParams.set('download', 'true')
  return (
    <section ref={frame} className={wrap ? 'log wrapped' : 'log'} aria-label={`Log of ${name}`} onKeyDown={onKeyDown}>
      <LogBar state={log.state} lines={store.length} search={search} input={input}>
        <ServiceChoice services={log.state.kind === 'complete' ? log.state.services : []} chosen={service} choose={onService} />
        {rows.sections.length > 1 && <StepChoice rows={rows} task={task} onStep={(s) => goTo(rows.sections[s]!.line)} />}
        {failing !== undefined && <button type="button" className="danger" onClick={() => goTo(failing)}>Failing line</button>}
        <Toggle on={times} set={setTimes} title="Show when each line began">Times</Toggle>
        <Toggle on={wrap} set={setWrap} title="Break long lines">Wrap</Toggle>
        <Toggle on={scroll.following} set={(on) => (on ? scroll.toEnd() : scroll.goTo(Math.max(0, scroll.top)))} title="Stay at the end of the log">Follow</Toggle>
        <a className="button" href={raw.href} target="_blank" rel="noreferrer">Raw</a>
        <a className="button" href={download.href}>Download</a>
      </LogBar>
      {log.state.kind === 'failed' && (
        <Failure error={log.state.error}>
          {log.state.error instanceof ProblemError && log.state.error.status === 410 && <p>The status and the outputs of the task are kept.</p>}
        </Failure>
      )}
      <div className="lines" ref={scroller} tabIndex={0} role="region" aria-label="Lines of the log" onScroll={scroll.onScroll}>
        <div className="space" style={{ height: scroll.geometry.height }}>
          <div className={scroll.atBottom ? 'view at-bottom' : 'view'} style={{ height: scroll.view }}>
            <div className="drawn" ref={box}>{drawn}</div>
          </div>
        </div>
        {rows.length === 0 && <p className="none muted">{nothing(log.indexed, log.state.kind, service)}</p>}
      </div>
    </section>
  )
}

/** The least height of a log, and what is left free below it. */
const leastHeight = 400
const margin = 20

/** useRestOfWindow makes an element as high as what the page has left below its start. */
function useRestOfWindow(element: RefObject<HTMLElement | null>) {
  useLayoutEffect(() => {
    const fit = () => {
      const box = element.current
      if (!box) return
      const scrolled = box.closest('main')?.scrollTop ?? 0
      box.style.height = `${Math.max(leastHeight, window.innerHeight - box.getBoundingClientRect().top - scrolled - margin)}px`
    }
    fit()
    // What is above the log changes with the state of the run.
    const sizes = new ResizeObserver(fit)
    for (const above of element.current?.parentElement?.children ?? []) if (above !== element.current) sizes.observe(above)
    window.addEventListener('resize', fit)
    return () => {
      sizes.disconnect()
      window.removeEventListener('resize', fit)
    }
  }, [element])
}

function nothing(indexed: boolean, state: string, service?: string): string {
  if (state === 'failed') return 'There is no log to show.'
  if (!indexed) return 'Loading the log …'
  if (service !== undefined) return state === 'complete' ? `The service ${service} wrote nothing.` : `The output of the service ${service} is stored when the task ends.`
  return state === 'complete' ? 'The task wrote nothing.' : 'The task has not written anything yet.'
}

/** lineAt returns the line of a row; of a head, the first of its section. */
function lineAt(rows: Rows, row: number): number {
  const at = rows.at(Math.max(0, Math.min(row, rows.length - 1)))
  return at.kind === 'line' ? at.line : rows.sections[at.section]!.line
}

function stepName(task: Task, step: number): string {
  return step < 0 ? 'Environment' : `Step ${step + 1}: ${task.steps[step]?.name || 'unnamed'}`
}

/** Head begins the lines of a step, and folds them. */
function Head({ rows, section, task, service, onFold }: { rows: Rows; section: number; task: Task; service?: string; onFold: (section: number) => void }) {
  const { step } = rows.sections[section]!
  const of = task.steps[step]
  const took = between(of?.started_at, of?.ended_at)
  const folded = rows.isFolded(section)
  const lines = rows.linesOf(section)
  return (
    <div className="line section" data-kind={of?.status}>
      <button type="button" aria-expanded={!folded} onClick={() => onFold(section)}>
        <span className="arrow" aria-hidden="true">{folded ? '▸' : '▾'}</span>
        <b>{service === undefined ? stepName(task, step) : `Service ${service}`}</b>
        {of && <span className="kind">{of.status}{of.exit_code ? `, exit code ${of.exit_code}` : ''}</span>}
        <span className="muted">{lines.toLocaleString('en')} {lines === 1 ? 'line' : 'lines'}{of?.ended_at && took !== undefined ? ` · ${duration(took)}` : ''}</span>
      </button>
    </div>
  )
}

/** ServiceChoice chooses between the log of the task and the output of its services, if there is any. */
function ServiceChoice({ services, chosen, choose }: { services: string[]; chosen?: string; choose: (service?: string) => void }) {
  const names = chosen === undefined || services.includes(chosen) ? services : [chosen, ...services]
  if (names.length === 0) return null
  return (
    <select aria-label="Log" value={chosen ?? ''} onChange={(e) => choose(e.target.value || undefined)}>
      <option value="">Steps</option>
      {names.map((name) => <option key={name} value={name}>Service {name}</option>)}
    </select>
  )
}

/** StepChoice goes to the first line of a step. */
function StepChoice({ rows, task, onStep }: { rows: Rows; task: Task; onStep: (section: number) => void }) {
  return (
    <select aria-label="Go to a step" value="" onChange={(e) => { if (e.target.value) onStep(Number(e.target.value)) }}>
      <option value="">Go to step …</option>
      {rows.sections.slice(0, 100).map((s, i) => <option key={s.line} value={i}>{stepName(task, s.step)} (line {s.line + 1})</option>)}
    </select>
  )
}

/**
 * useOpening shows the part of a log that its reader looks for first. It returns the line that failed once it is known, and
 * until then the lines that it wants to see. Without a task, the log is that of a service.
 */
function useOpening({ store, indexed }: { store: LogStore; indexed: boolean }, rows: Rows, task: Task | undefined, range: Range | undefined, goTo: (line: number) => void, toEnd: () => void) {
  const [failing, setFailing] = useState<number>()
  const opened = useRef(false)
  const shown = useRef<number>(undefined)

  useLayoutEffect(() => {
    if (!range || range.first === shown.current || rows.length === 0) return
    if (range.first > store.length && !indexed) return // the index goes on
    opened.current = true
    shown.current = range.first
    goTo(Math.min(range.first, store.length) - 1)
  })
  useLayoutEffect(() => {
    if (opened.current || !indexed || range || (task && task.status !== 'running')) return
    opened.current = true
    toEnd()
  })
  const wants = indexed && failing === undefined && rows.length > 0 && task?.status === 'failed' ? failedLines(rows, task, store.length) : undefined
  useEffect(() => {
    if (!wants) return
    const texts: string[] = []
    for (let line = wants[0]; line < wants[1]; line++) {
      const known = store.at(line)
      if (!known) return
      texts.push(known.text)
    }
    const line = wants[0] + failingLine(texts)
    setFailing(line)
    if (opened.current) return
    opened.current = true
    goTo(line)
  })
  return { failing, wants }
}

/** failedLines returns the last lines of the step that failed: from the first, up to the second. */
function failedLines(rows: Rows, task: Task, lines: number): [number, number] {
  const failed = task.steps.findIndex((s) => s.status === 'failed')
  const section = rows.sections.findLastIndex((s) => failed < 0 || s.step === failed)
  if (section < 0) return [Math.max(0, lines - failingLines), lines]
  const begin = rows.sections[section]!.line
  const end = begin + rows.linesOf(section)
  return [Math.max(begin, end - failingLines), end]
}
