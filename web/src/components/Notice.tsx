import { useQueryClient } from '@tanstack/react-query'

import { messageOf, ProblemError } from '../api/client'
import type { components } from '../api/schema.gen'
import { missingScope } from '../lib/refusal'

/** Failure says what went wrong with a request, and what to do about it. */
export function Failure({ error, retry }: { error: unknown; retry?: () => void }) {
  const problem = error instanceof ProblemError ? error : undefined
  return (
    <div className="notice failed" role="alert">
      <strong>{messageOf(error)}</strong>
      {problem?.status === 410 && <p>It was deleted. The retention of this server removes old runs and logs.</p>}
      {problem?.status === 403 && <Scopes problem={problem} />}
      {!problem && <p>The page tries again by itself.</p>}
      {retry && <p><button onClick={retry}>Try again</button></p>}
    </div>
  )
}

/** Scopes says which scope the user lacks, and which the user has. */
function Scopes({ problem }: { problem: ProblemError }) {
  const session = useQueryClient().getQueryData<components['schemas']['Session']>(['session'])
  const missing = missingScope(problem.message)
  return (
    <>
      {missing && <p>This needs the scope <strong className="mono">{missing}</strong>.</p>}
      {session && <p>You are <strong>{session.subject}</strong>, with {session.scopes.length > 0 ? <>the scopes <span className="mono">{session.scopes.join(', ')}</span></> : 'no scope'}. An administrator can give you a token with more.</p>}
    </>
  )
}
