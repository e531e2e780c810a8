import { CatchBoundary, lazyRouteComponent } from '@tanstack/react-router'
import { Suspense, useState } from 'react'

import { Failure } from '../components/Notice'
import { Modal } from '../components/Modal'
import { useKeys } from '../lib/keys'
import { useRefusal } from '../lib/session'

// Loaded when it is opened for the first time.
const Find = lazyRouteComponent(() => import('./Find'), 'Find')

/** FindButton opens the search over names and ids, as the key / does. */
export function FindButton() {
  const refusal = useRefusal()('listRuns')
  const [open, setOpen] = useState(false)
  const close = () => setOpen(false)
  useKeys({ '/': () => setOpen(refusal === undefined) })
  if (refusal) return null
  return (
    <>
      <button onClick={() => setOpen(true)} aria-label="Find" title="Find (/)" aria-keyshortcuts="/">
        <svg width="18" height="18" viewBox="0 0 20 20" fill="none" stroke="currentColor" strokeWidth="1.6" strokeLinecap="round" aria-hidden="true">
          <circle cx="8.5" cy="8.5" r="5" /><path d="m12.5 12.5 4 4" />
        </svg>
      </button>
      <Modal title="Find" wide open={open} onClose={close}>
        <CatchBoundary getResetKey={() => String(open)} errorComponent={({ error }) => <Failure error={error}><p><button type="button" onClick={() => window.location.reload()}>Load the page again</button></p></Failure>}>
          <Suspense fallback={<p className="muted">Loading …</p>}><Find onClose={close} /></Suspense>
        </CatchBoundary>
      </Modal>
    </>
  )
}
