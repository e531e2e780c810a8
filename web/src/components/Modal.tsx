import { useEffect, useId, useRef, type ReactNode } from 'react'

import './Modal.css'

interface Props {
  title: string
  open: boolean
  onClose: () => void
  wide?: boolean
  children: ReactNode
}

/** Modal is a dialog of the browser: it keeps the focus, Escape closes it, and the focus returns to where it was. */
export function Modal({ title, open, onClose, wide, children }: Props) {
  const dialog = useRef<HTMLDialogElement>(null)
  const id = useId()
  useEffect(() => {
    const element = dialog.current
    if (open && element && !element.open) element.showModal()
    if (!open && element?.open) element.close()
  }, [open])
  return (
    <dialog ref={dialog} className={wide ? 'modal wide' : 'modal'} aria-labelledby={id} onClose={onClose}>
      {open && <><h2 id={id}>{title}</h2>{children}</>}
    </dialog>
  )
}
