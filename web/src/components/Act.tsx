import { useQueryClient } from '@tanstack/react-query'
import { useState, type ReactNode } from 'react'

import { outcomeOf, useAction } from '../api/action'
import type { Api } from '../api/client'
import type { Operation } from '../lib/permissions'
import { useRefusal } from '../lib/session'
import './Act.css'
import { Button } from './Button'
import { Modal } from './Modal'
import { ActionFooter } from './Outcome'

interface ActProps {
  label: string
  /** The operation that it calls. A user who may not call it finds out by the button. */
  needs: Operation
  /** The group of what it changes, if that has one. */
  group?: string | readonly string[]
  /** What else keeps the user from it, if the operation is allowed. */
  refusal?: string
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
  /** Whether there is a button now. A dialog that is open stays, also if what it would do was done meanwhile. */
  when?: boolean
  act: (api: Api) => Promise<unknown>
  /** The keys of the queries that the action changes. */
  changes: readonly unknown[]
  /** Called when the dialog opens: fields begin with what the page shows. */
  onOpen?: () => void
  /** Called when the present state was loaded after a conflict, instead of onOpen. */
  onReload?: () => void
  onDone?: () => void
}

/** Act is a button that does one thing, and says why it could not. */
export function Act({ label, needs, group, refusal: also, submit, title, confirm, children, danger, primary, disabled, when = true, act, changes, onOpen, onReload = onOpen, onDone }: ActProps) {
  const queries = useQueryClient()
  const refusal = useRefusal()(needs, group) ?? also
  const [open, setOpen] = useState(false)
  const [loading, setLoading] = useState(false)
  const close = () => setOpen(false)
  const action = useAction({
    act,
    changes: [changes],
    onDone: () => {
      close()
      onDone?.()
    },
  })
  const look = danger ? 'danger' : primary ? 'primary' : undefined
  if (!confirm && !children) {
    if (!when) return null
    return (
      <>
        <Button refusal={refusal} className={look} disabled={disabled || action.waiting} onClick={() => action.run()}>{label}</Button>
        {action.slow && <button type="button" onClick={action.withdraw}>Stop waiting</button>}
        {action.error !== null && <span role="alert" className="reason">{outcomeOf(action.error)}</span>}
      </>
    )
  }
  const again = async () => {
    setLoading(true)
    await queries.refetchQueries({ queryKey: changes, type: 'active' })
    setLoading(false)
    onReload?.()
    action.reset()
  }
  return (
    <>
      {when && (
        <Button
          refusal={refusal} className={look} disabled={disabled} aria-haspopup="dialog"
          onClick={() => {
            onOpen?.()
            setOpen(true)
          }}
        >
          {label} …
        </Button>
      )}
      <Modal title={title ?? label} open={open} onClose={close} action={action}>
        <form
          onSubmit={(e) => {
            e.preventDefault()
            action.run()
          }}
        >
          {confirm}
          {children}
          <ActionFooter action={action} again={() => void again()} onClose={close}>
            <button type="submit" className={danger ? 'danger sure' : 'primary'} disabled={action.waiting || loading}>{submit ?? label}</button>
          </ActionFooter>
        </form>
      </Modal>
    </>
  )
}
