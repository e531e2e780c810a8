import { Link, useRouter } from '@tanstack/react-router'
import { useCallback, useEffect, useRef, useState, type KeyboardEvent } from 'react'

import { Failed } from '../components/Loaded'
import { Modal } from '../components/Modal'
import { useThrottled } from '../lib/throttle'
import { idOf, matching, type Entry } from './entries'
import './find.css'
import { useEntries } from './useEntries'

/** The least time between two readings of what a text may stand for, in milliseconds. */
const pauseMillis = 300

/** Find is a dialog that leads to runs and to what operators have named. */
export function Find({ open, onClose }: { open: boolean; onClose: () => void }) {
  return <Modal title="Find" wide open={open} onClose={onClose}><Search onClose={onClose} /></Modal>
}

function Search({ onClose }: { onClose: () => void }) {
  const router = useRouter()
  const [text, setText] = useState('')
  const wanted = useThrottled(text.trim(), pauseMillis)
  const { entries, queries } = useEntries(wanted)
  const shown = matching(text, entries)
  const list = useRef<HTMLUListElement>(null)
  const input = useRef<HTMLInputElement>(null)
  const go = useCallback((to: Entry['link']) => {
    void router.navigate(to)
    onClose()
  }, [router, onClose])
  // Enter goes to the first entry, also if it has not been read yet.
  const [entered, setEntered] = useState<string>()
  const first = shown[0]?.link
  useEffect(() => {
    if (entered === text && first) go(first)
  }, [entered, text, first, go])
  const failing = queries.find((q) => q.error ?? q.failureReason)
  const reading = wanted !== text.trim() || queries.some((q) => q.isFetching)
  const move = (e: KeyboardEvent) => {
    if (e.key !== 'ArrowDown' && e.key !== 'ArrowUp') return
    const stops = [input.current, ...(list.current?.querySelectorAll('a') ?? [])]
    const to = stops[stops.indexOf(document.activeElement as HTMLInputElement | HTMLAnchorElement) + (e.key === 'ArrowDown' ? 1 : -1)]
    e.preventDefault()
    to?.focus()
  }
  return (
    <form role="search" className="find" onKeyDown={move} onSubmit={(e) => {
      e.preventDefault()
      const id = idOf(text)
      if (id) go({ to: '/runs/$id', params: { id } })
      else setEntered(text)
    }}>
      <input ref={input} type="text" aria-label="Name or id" placeholder="a name, the id of a run, or /the/path/of/a/group" value={text} spellCheck={false} autoComplete="off" maxLength={500} onChange={(e) => setText(e.target.value)} />
      {failing && <Failed query={failing} />}
      <ul ref={list} aria-label="Found">
        {shown.map((e) => (
          <li key={JSON.stringify(e.link)}>
            <Link {...e.link} onClick={onClose}><span className="kind">{e.kind}</span> <b>{e.name}</b> {e.detail && <span className="muted">{e.detail}</span>}</Link>
          </li>
        ))}
      </ul>
      <p className="muted" role="status">{status(text, shown.length, reading)}</p>
    </form>
  )
}

function status(text: string, shown: number, reading: boolean): string {
  if (text.trim() === '') return 'Runs, pools, fleets, executors, change groups, schedules and webhooks. Older runs are found by their whole name or id.'
  if (shown > 0) return ''
  return reading ? 'Looking …' : 'Nothing has this name or id, as far as you may see it.'
}
