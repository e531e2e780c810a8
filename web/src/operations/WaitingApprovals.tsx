import { useCallback, useEffect, useRef } from 'react'

import type { Event } from '../api/client'
import { counted } from '../lib/counted'
import { useSession } from '../lib/session'
import { toDecide } from '../run/approval'
import { useLiveQuery } from './live'
import { waitingQuery } from './queries'

/** WaitingApprovals shows, beside the link to the approvals, how many tasks wait for the user. */
export function WaitingApprovals() {
  const session = useSession()
  // Only these events change which tasks wait. All pages have the header, so it must not read again with every event.
  const runs = useRef<ReadonlySet<string>>(new Set())
  const changes = useCallback((e: Event) => e.type === 'approval_wanted' || runs.current.has(e.run), [])
  const { data: page } = useLiveQuery(waitingQuery, changes)
  useEffect(() => {
    runs.current = new Set(page?.approvals.map((a) => a.run))
  }, [page])
  const count = page ? toDecide(page.approvals, session) : 0
  if (count === 0) return null
  const text = page?.next_after ? `${count}+` : String(count)
  return <span className="waiting" data-count={text} title={`${text === '1' ? 'A task waits' : `${counted(count, 'task')}${page?.next_after ? ' or more' : ''} wait`} for your approval`} />
}
