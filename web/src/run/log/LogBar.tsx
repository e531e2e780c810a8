import { useState, type RefObject } from 'react'

import { messageOf } from '../../api/problem'
import type { LogState } from './useLog'
import type { Search } from './useSearch'

interface BarProps {
  state: LogState
  lines: number
  search: Search
  input: RefObject<HTMLInputElement | null>
  children: React.ReactNode
}

/** LogBar has the state of a log, the search in it, and what its owner adds. */
export function LogBar({ state, lines, search, input, children }: BarProps) {
  return (
    <div className="bar">
      <State state={state} />
      <span className="muted count">{lines.toLocaleString('en')} {lines === 1 ? 'line' : 'lines'}</span>
      <SearchBox search={search} input={input} />
      <div className="tools">{children}</div>
    </div>
  )
}

function State({ state }: { state: LogState }) {
  const texts = { loading: 'loading', live: 'live', complete: 'complete', lost: 'connection lost, trying again', retrying: 'trying again', failed: 'not readable' }
  return (
    <span className="state" data-state={state.kind} role="status">
      {texts[state.kind]}{state.kind === 'retrying' && <>: {messageOf(state.error)}</>}
    </span>
  )
}

function SearchBox({ search, input }: { search: Search; input: RefObject<HTMLInputElement | null> }) {
  const [text, setText] = useState('')
  const { found } = search
  const current = found && found.text === text
  return (
    <form role="search" className="search" onSubmit={(e) => { e.preventDefault(); search.next(text, false) }}>
      <input ref={input} type="search" placeholder="Search the whole log" aria-label="Search the whole log" maxLength={1000} value={text}
        onChange={(e) => { setText(e.target.value); if (e.target.value === '') search.clear() }}
        onKeyDown={(e) => {
          if (e.key === 'Enter' && e.shiftKey) { e.preventDefault(); search.next(text, true) }
          if (e.key === 'Escape') { setText(''); search.clear() }
        }} />
      <button type="button" className="icon" aria-label="Previous line with the text" title="Previous (Shift+Enter)" disabled={!text} onClick={() => search.next(text, true)}>↑</button>
      <button type="submit" className="icon" aria-label="Next line with the text" title="Next (Enter)" disabled={!text}>↓</button>
      <span className="muted hits" aria-live="polite">{current ? hits(found) : ''}</span>
    </form>
  )
}

function hits({ lines, at, busy, more, error }: NonNullable<Search['found']>): string {
  if (error) return error
  if (lines.length === 0) return busy ? 'searching …' : 'no line'
  return `${at >= 0 ? `${(at + 1).toLocaleString('en')} of ` : ''}${lines.length.toLocaleString('en')}${busy ? ' …' : more ? '+' : ''}`
}

/** Toggle is a button that is on or off. */
export function Toggle({ on, set, title, children }: { on: boolean; set: (on: boolean) => void; title: string; children: React.ReactNode }) {
  return <button type="button" className="toggle" aria-pressed={on} title={title} onClick={() => set(!on)}>{children}</button>
}
