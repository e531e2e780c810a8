import { useEffect, useState } from 'react'

import { counted } from '../lib/counted'
import { useSession } from '../lib/session'
import { toDecide } from '../run/approval'
import { useLiveQuery } from './live'
import { waitingQuery } from './queries'
import { waitingChanges } from './waiting'

/** WaitingApprovals shows, beside the link to the approvals, how many tasks wait for the user. */
export function WaitingApprovals() {
  const session = useSession()
  const [waiting] = useState(waitingChanges)
  const { data: page, dataUpdatedAt } = useLiveQuery(waitingQuery, waiting.changes)
  useEffect(() => {
    if (page && dataUpdatedAt > 0) waiting.arrived(page.approvals) // also if it is the same as before
  }, [page, dataUpdatedAt, waiting])
  const count = page ? toDecide(page.approvals, session) : 0
  if (count === 0) return null
  const text = page?.next_after ? `${count}+` : String(count)
  return <span className="waiting" data-count={text} title={`${text === '1' ? 'A task waits' : `${counted(count, 'task')}${page?.next_after ? ' or more' : ''} wait`} for your approval`} />
}
