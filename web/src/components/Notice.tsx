import { messageOf, ProblemError } from '../api/client'

/** Failure says what went wrong with a request, and what to do about it. */
export function Failure({ error, retry }: { error: unknown; retry?: () => void }) {
  const problem = error instanceof ProblemError ? error : undefined
  return (
    <div className="notice failed" role="alert">
      <strong>{messageOf(error)}</strong>
      {problem?.status === 410 && <p>It was deleted. The retention of this server removes old runs and logs.</p>}
      {problem?.status === 403 && <p>The token of this browser does not allow it.</p>}
      {!problem && <p>The page tries again by itself.</p>}
      {retry && <p><button onClick={retry}>Try again</button></p>}
    </div>
  )
}
