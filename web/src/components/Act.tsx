import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useId, useRef, useState, type ReactNode } from 'react'

import { messageOf, ProblemError } from '../api/client'
import type { Operation } from '../lib/permissions'
import { useRefusal } from '../lib/session'
import './Act.css'
import { Button } from './Button'

interface ActProps {
  label: string
  /** The operation that it calls. A user who may not call it finds out by the button. */
  needs: Operation
  /** The group of what it changes, if that has one. */
  group?: string | readonly string[]
  /** The button of the dialog, if it is not the label. */
  submit?: string
  /** What the dialog is about, if the label alone does not tell. */
  title?: string
  /** What the action will do. With it, the user is asked first. */
  confirm?: ReactNode
  /** Fields of the dialog. */
  children?: ReactNode
  danger?: boolean
  primary?: boolean
  disabled?: boolean
  act: () => Promise<unknown>
  /** The keys of the queries that the action changes. */
  changes: readonly unknown[]
  /** Called when the dialog opens: fields begin with what the page shows. */
  onOpen?: () => void
  /** Called when the present state was loaded after a conflict, instead of onOpen. */
  onReload?: () => void
  onDone?: () => void
}

/** Act is a button that does one thing, and says why it could not. */
export function Act({ label, needs, group, submit, title, confirm, children, danger, primary, disabled, act, changes, onOpen, onReload = onOpen, onDone }: ActProps) {
  const queries = useQueryClient()
  const refusal = useRefusal()(needs, group)
  const dialog = useRef<HTMLDialogElement>(null)
  const heading = useId()
  const [open, setOpen] = useState(false)
  const action = useMutation({
    mutationFn: act,
    onSuccess: () => {
      dialog.current?.close()
      onDone?.()
    },
    onSettled: () => queries.invalidateQueries({ queryKey: changes }),
  })
  const look = danger ? 'danger' : primary ? 'primary' : undefined
  if (!confirm && !children) {
    return (
      <>
        <Button refusal={refusal} className={look} disabled={disabled || action.isPending} onClick={() => action.mutate()}>{label}</Button>
        {action.error && <span role="alert" className="reason">{messageOf(action.error)}</span>}
      </>
    )
  }
  const show = () => {
    action.reset()
    onOpen?.()
    setOpen(true)
    dialog.current?.showModal()
  }
  const again = async () => {
    await queries.refetchQueries({ queryKey: changes, type: 'active' })
    onReload?.()
    action.reset()
  }
  return (
    <>
      <Button refusal={refusal} className={look} disabled={disabled} aria-haspopup="dialog" onClick={show}>{label} …</Button>
      <dialog ref={dialog} className="act" aria-labelledby={heading} onClose={() => setOpen(false)}>
        {open && (
          <form
            onSubmit={(e) => {
              e.preventDefault()
              action.mutate()
            }}
          >
            <h2 id={heading}>{title ?? label}</h2>
            {confirm}
            {children}
            {action.error && <Refused error={action.error} again={() => void again()} />}
            <div className="pager">
              <button type="button" onClick={() => dialog.current?.close()}>Cancel</button>
              <button type="submit" className={danger ? 'danger sure' : 'primary'} disabled={action.isPending}>{submit ?? label}</button>
            </div>
          </form>
        )}
      </dialog>
    </>
  )
}

/** Refused says why the gateway refused, with all faults of the input. After a conflict it offers the present state. */
function Refused({ error, again }: { error: unknown; again: () => void }) {
  const problem = error instanceof ProblemError ? error : undefined
  const faults = problem?.problem.errors ?? []
  return (
    <div className="notice failed" role="alert">
      <strong>{messageOf(error)}</strong>
      {faults.length > 0 && <ul>{faults.map((f, i) => <li key={i}><span className="mono">{f.path}</span> {f.detail}</li>)}</ul>}
      {problem?.status === 409 && <div><button type="button" onClick={again}>Load the present state</button></div>}
    </div>
  )
}
