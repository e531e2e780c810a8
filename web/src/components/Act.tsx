import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useId, useRef, type ReactNode } from 'react'

import { messageOf } from '../api/client'

interface ActProps {
  label: string
  /** What the action will do. With it, the user is asked first. */
  confirm?: ReactNode
  danger?: boolean
  primary?: boolean
  act: () => Promise<unknown>
  /** The keys of the queries that the action changes. */
  changes: readonly unknown[]
}

/** Act is a button that does one thing, and says why it could not. */
export function Act({ label, confirm, danger, primary, act, changes }: ActProps) {
  const queries = useQueryClient()
  const dialog = useRef<HTMLDialogElement>(null)
  const title = useId()
  const action = useMutation({
    mutationFn: act,
    onSuccess: () => dialog.current?.close(),
    onSettled: () => queries.invalidateQueries({ queryKey: changes }),
  })
  const look = danger ? 'danger' : primary ? 'primary' : undefined
  const failure = action.error && <span role="alert" className="reason">{messageOf(action.error)}</span>
  if (!confirm) {
    return <><button className={look} disabled={action.isPending} onClick={() => action.mutate()}>{label}</button>{failure}</>
  }
  return (
    <>
      <button className={look} onClick={() => { action.reset(); dialog.current?.showModal() }}>{label} …</button>
      <dialog ref={dialog} aria-labelledby={title}>
        <h2 id={title}>{label}</h2>
        <div>{confirm}</div>
        {failure}
        <div className="pager">
          <button onClick={() => dialog.current?.close()}>Keep as it is</button>
          <button className={look ?? 'primary'} disabled={action.isPending} onClick={() => action.mutate()}>{label}</button>
        </div>
      </dialog>
    </>
  )
}
