import { Link, useRouter } from '@tanstack/react-router'
import { useEffect, useRef, useState, type KeyboardEvent, type MouseEvent } from 'react'

import { Failed } from '../components/Loaded'
import { counted } from '../lib/counted'
import { useThrottled } from '../lib/throttle'
import { matching, type Entry } from './entries'
import './find.css'
import { useEntries } from './useEntries'

/** The least time between two readings of what a text may stand for, in milliseconds. */
const pauseMillis = 300

/** Find is a search that leads to runs and to what operators have named. onClose is called when it leads away. */
export function Find({ onClose }: { onClose: () => void }) {
  const router = useRouter()
  const [text, setText] = useState('')
  const wanted = useThrottled(text.trim(), pauseMillis)
  const { entries, queries } = useEntries(wanted)
  const shown = matching(text, entries)
  const reading = wanted !== text.trim() || queries.some((q) => q.isFetching && !q.failureReason)
  const failing = queries.find((q) => q.error ?? q.failureReason)
  const list = useRef<HTMLUListElement>(null)
  const input = useRef<HTMLInputElement>(null)
  useEffect(() => input.current?.focus(), [])
  // Enter goes to the first entry once all are known.
  const [entered, setEntered] = useState(false)
  const go = useRef<(to?: Entry['link']) => void>(undefined)
  useEffect(() => {
    go.current = (to) => {
      setEntered(false)
      if (!to) return
      void router.navigate(to)
      onClose()
    }
  })
  const first = shown[0]?.link
  useEffect(() => {
    if (entered && !reading) go.current?.(first)
  }, [entered, reading, first])
  const move = (e: KeyboardEvent) => {
    if (e.key !== 'ArrowDown' && e.key !== 'ArrowUp') return
    const stops = [input.current, ...(list.current?.querySelectorAll('a') ?? [])]
    const to = stops[stops.indexOf(document.activeElement as HTMLInputElement | HTMLAnchorElement) + (e.key === 'ArrowDown' ? 1 : -1)]
    e.preventDefault()
    to?.focus()
  }
  const leave = (e: MouseEvent) => {
    if (!e.ctrlKey && !e.metaKey && !e.shiftKey) onClose() // else it opens elsewhere
  }
  return (
    <form role="search" className="find" onKeyDown={move} onSubmit={(e) => {
      e.preventDefault()
      setEntered(true)
    }}>
      <input
        ref={input} type="text" aria-label="Name or id" placeholder="a name, the id of a run, or /the/path/of/a/group"
        value={text} spellCheck={false} autoComplete="off" maxLength={500}
        onChange={(e) => {
          setText(e.target.value.toWellFormed())
          setEntered(false)
        }}
      />
      {failing && <Failed query={failing} />}
      <ul ref={list} aria-label="Found">
        {shown.map((e) => (
          <li key={JSON.stringify(e.link)}>
            <Link {...e.link} onClick={leave}><span className="kind">{e.kind}</span> <b>{e.name}</b> {e.detail && <span className="muted">{e.detail}</span>}</Link>
          </li>
        ))}
      </ul>
      <p className={shown.length > 0 ? 'visually-hidden' : 'muted'} role="status">{status(text, shown.length, reading)}</p>
    </form>
  )
}

function status(text: string, shown: number, reading: boolean): string {
  if (text.trim() === '') return 'Runs, pools, fleets, executors, change groups, schedules and webhooks. Older runs are found by their whole name or id.'
  if (shown > 0) return `${counted(shown, 'result')} found`
  return reading ? 'Looking …' : 'Nothing has this name or id, as far as you may see it.'
}
