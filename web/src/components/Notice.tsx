import type { ReactNode } from 'react'

import { messageOf, ProblemError } from '../api/problem'
import { missingScope } from '../lib/refusal'
import { Rights } from './NotAllowed'

/** Failure says what went wrong with a request, and what to do about it. Its children are not announced again when they change. */
export function Failure({ error, children }: { error: unknown; children?: ReactNode }) {
  const problem = error instanceof ProblemError ? error : undefined
  return (
    <div className="notice failed">
      <div role="alert">
        <strong>{messageOf(error)}</strong>
        {problem?.status === 410 && <p>It was deleted. The retention of this server removes old runs and logs.</p>}
        {problem?.status === 403 && <Refused problem={problem} />}
      </div>
      {children}
    </div>
  )
}

/** Refused says which scope the user lacks, and what the user has. */
function Refused({ problem }: { problem: ProblemError }) {
  const missing = missingScope(problem.message)
  return (
    <>
      {missing && <p>This needs the scope <strong className="mono">{missing}</strong>.</p>}
      <Rights />
    </>
  )
}
