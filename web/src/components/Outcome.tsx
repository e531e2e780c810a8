import type { ReactNode } from 'react'

import { isKnown, type Action } from '../api/action'
import { messageOf, ProblemError } from '../api/problem'

interface OutcomeProps {
  action: Pick<Action<never>, 'slow' | 'error'>
  /** Loads the present state, which is offered after a conflict. */
  again?: () => void
  /** The same call is not done twice. */
  repeatable?: boolean
  /** The fields of the dialog, by the paths of their values. */
  fields?: ReadonlyMap<string, string>
}

/** Outcome says what becomes of an action: that there is no answer yet, why the gateway refused it, or that it is not known. */
export function Outcome({ action: { slow, error }, again, repeatable, fields }: OutcomeProps) {
  if (slow) return <p className="notice" role="status">The gateway has not answered yet.</p>
  if (!error) return null
  const problem = error instanceof ProblemError ? error : undefined
  const faults = problem?.problem.errors ?? []
  return (
    <div className="notice failed" role="alert">
      <strong>{messageOf(error)}</strong>
      {!isKnown(error) && <p>It is not known whether it was done. {repeatable ? 'If you try again, it is not done twice.' : 'Look at the present state before you try again.'}</p>}
      {faults.length > 0 && <ul>{faults.map((f, i) => <li key={i}>{fields?.has(f.path) ? `${fields.get(f.path)}:` : <span className="mono">{f.path}</span>} {f.detail}</li>)}</ul>}
      {again && problem?.status === 409 && <div><button type="button" onClick={again}>Load the present state</button></div>}
    </div>
  )
}

/** Unanswered says that an action without a dialog has no answer yet, and lets its user stop waiting. */
export function Unanswered({ action: { slow, withdraw } }: { action: Pick<Action<never>, 'slow' | 'withdraw'> }) {
  if (!slow) return null
  return (
    <>
      <p className="notice" role="status">The gateway has not answered yet.</p>
      <button type="button" onClick={withdraw}>Stop waiting</button>
    </>
  )
}

interface FooterProps extends Omit<OutcomeProps, 'action'> {
  action: Pick<Action<never>, 'slow' | 'error' | 'withdraw'>
  onClose: () => void
  /** The buttons that do it. */
  children: ReactNode
}

/** ActionFooter is the end of a dialog that changes something. The dialog stays until its user knows what became of it. */
export function ActionFooter({ action, onClose, children, ...outcome }: FooterProps) {
  return (
    <>
      <Outcome action={action} {...outcome} />
      <div className="pager">
        <button type="button" onClick={() => { if (!action.withdraw()) onClose() }}>{action.slow ? 'Stop waiting' : 'Close'}</button>
        {children}
      </div>
    </>
  )
}
