import { useId, useState, type ComponentProps, type KeyboardEvent } from 'react'

import './Button.css'

interface Props extends ComponentProps<'button'> {
  /** What the user lacks. The button then does nothing, but keeps its place in the order of the keyboard, to say why. */
  refusal?: string
}

/** Button is a button for an action that the user may not be allowed to do. */
export function Button({ refusal, ...props }: Props) {
  return refusal === undefined ? <button {...props} /> : <Refused {...props} refusal={refusal} />
}

function Refused({ refusal, className, children }: Props & { refusal: string }) {
  const id = useId()
  const [at, setAt] = useState<{ left: number; top: number }>()
  const show = (element: HTMLElement) => {
    const { left, bottom } = element.getBoundingClientRect()
    setAt({ left: Math.max(8, Math.min(left, window.innerWidth - width - 8)), top: bottom + 4 })
  }
  const hide = () => setAt(undefined)
  return (
    <>
      <button
        type="button" className={className} aria-disabled="true" aria-describedby={id}
        onClick={(e) => show(e.currentTarget)} onFocus={(e) => show(e.currentTarget)} onBlur={hide}
        onMouseEnter={(e) => show(e.currentTarget)} onMouseLeave={hide}
        onKeyDown={(e: KeyboardEvent) => {
          if (e.key !== 'Escape' || !at) return
          e.preventDefault()
          hide()
        }}
      >
        {children}
      </button>
      {/* A description is announced although it is hidden. */}
      <span id={id} role="tooltip" className="refusal" hidden={!at} style={at}>{refusal}</span>
    </>
  )
}

/** The most that the text is wide, in pixels. */
const width = 280
