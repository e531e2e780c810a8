import { memo, useMemo, type MouseEvent } from 'react'

import type { Zone } from '../../lib/time'
import { mark, pieces } from './ansi'
import { LineText } from './LineText'

interface Props {
  /** From 1. */
  number: number
  text?: string
  note?: boolean
  time?: number
  /** Show the time, in this zone. */
  zone?: Zone
  marked: boolean
  failing: boolean
  found: boolean
  search: string
  onPick: (line: number, extend: boolean) => void
}

/** LogLine shows a line with its colours. Its text is never markup. */
export const LogLine = memo(function LogLine({ number, text, note, time, zone, marked, failing, found, search, onPick }: Props) {
  const parts = useMemo(() => (text === undefined ? [] : mark(pieces(text), search)), [text, search])
  const pick = (e: MouseEvent) => {
    if (e.ctrlKey || e.metaKey) return
    e.preventDefault()
    onPick(number, e.shiftKey)
  }
  const kind = ['line', marked && 'marked', failing && 'failing', found && 'found'].filter(Boolean).join(' ')
  return (
    <div className={kind}>
      <a className="n" href={`#L${number}`} onClick={pick} aria-label={`Line ${number}`} draggable={false}>{number}</a>
      {zone && <time className="t">{time === undefined || Number.isNaN(time) ? '' : clocks[zone].format(time)}</time>}
      {text === undefined ? <span className="muted">…</span> : note ? <em className="muted">{text}</em> : <span className="text"><LineText pieces={parts} /></span>}
    </div>
  )
})

const clock = (timeZone?: string) => new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3, timeZone })
const clocks: Record<Zone, Intl.DateTimeFormat> = { local: clock(), utc: clock('UTC') }
