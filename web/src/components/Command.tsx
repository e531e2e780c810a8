import { useRef, useState } from 'react'

import type { Operation } from '../lib/permissions'
import { useRefusal } from '../lib/session'
import './Command.css'

interface CommandProps {
  text: string
  /** The operation that the command calls, and its group, as for a button. A user who may not call it does not see the command. */
  needs: Operation
  group?: string
}

/** Command shows a command line that can be copied. */
export function Command({ text, needs, group }: CommandProps) {
  const refusal = useRefusal()(needs, group)
  const code = useRef<HTMLElement>(null)
  const [copied, setCopied] = useState('')
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text)
      setCopied('copied')
    } catch {
      // Pages without TLS have no clipboard: the text is selected for the user's own keys.
      if (code.current) getSelection()?.selectAllChildren(code.current)
      setCopied('selected')
    }
    window.setTimeout(() => setCopied(''), 2000)
  }
  if (refusal) return null
  return (
    <span className="command">
      <code ref={code}>{text}</code>
      <button onClick={() => void copy()} aria-label={`Copy: ${text}`}>{copied || 'Copy'}</button>
      <span className="visually-hidden" role="status">{copied}</span>
    </span>
  )
}

interface EmptyProps extends CommandProps {
  title: string
  children: string
}

/** Empty says of a list without rows what it is for, and how a user who may begins one. */
export function Empty({ title, children, ...command }: EmptyProps) {
  const refusal = useRefusal()(command.needs, command.group)
  return (
    <>
      <h2>{title}</h2>
      <p>{children}{refusal ? '.' : ':'}</p>
      <Command {...command} />
    </>
  )
}
