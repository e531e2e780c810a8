import { lazy, Suspense, useState } from 'react'

import { useKeys } from '../lib/keys'
import { useRefusal } from '../lib/session'

const Find = lazy(() => import('./Find').then((m) => ({ default: m.Find })))

/** FindButton opens the search over names and ids, as the key / does on every page. */
export function FindButton() {
  const refusal = useRefusal()('listRuns')
  const [open, setOpen] = useState(false)
  // What it needs is loaded when it is opened for the first time.
  const [used, setUsed] = useState(false)
  const show = () => {
    if (refusal) return
    setUsed(true)
    setOpen(true)
  }
  useKeys({ '/': show })
  if (refusal) return null
  return (
    <>
      <button onClick={show} aria-label="Find" title="Find (/)" aria-keyshortcuts="/">
        <svg width="18" height="18" viewBox="0 0 20 20" fill="none" stroke="currentColor" strokeWidth="1.6" strokeLinecap="round" aria-hidden="true">
          <circle cx="8.5" cy="8.5" r="5" /><path d="m12.5 12.5 4 4" />
        </svg>
      </button>
      {used && <Suspense><Find open={open} onClose={() => setOpen(false)} /></Suspense>}
    </>
  )
}
