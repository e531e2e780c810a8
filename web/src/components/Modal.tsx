import { useEffect, useId, useRef, type ReactNode } from 'react'

import type { Action } from '../api/action'
import './Modal.css'

interface Props {
  title: string
  open: boolean
  onClose: () => void
  /** What the dialog does. While there is no answer, Escape withdraws it and the dialog stays, to tell what is known. */
  action?: Pick<Action<never>, 'withdraw' | 'reset'>
  wide?: boolean
  children: ReactNode
}

/** Modal is a dialog of the browser: it keeps the focus, Escape closes it, and the focus returns to where it was. */
export function Modal({ title, open, onClose, action, wide, children }: Props) {
  const dialog = useRef<HTMLDialogElement>(null)
  const id = useId()
  useEffect(() => {
    const element = dialog.current
    if (open && element && !element.open) element.showModal()
    if (!open && element?.open) element.close()
  }, [open])
  return (
    <dialog
      ref={dialog} className={wide ? 'modal wide' : 'modal'} aria-labelledby={id}
      onCancel={(e) => {
        if (action?.withdraw()) e.preventDefault()
      }}
      onClose={() => {
        // A browser closes a dialog that prevents it too often.
        if (action?.withdraw()) return dialog.current?.showModal()
        action?.reset()
        onClose()
      }}
    >
      {open && <><h2 id={id}>{title}</h2>{children}</>}
    </dialog>
  )
}
