import { useRef, useState } from 'react'

import './Command.css'

/** Command shows a command line that can be copied. */
export function Command({ text }: { text: string }) {
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
  return (
    <span className="command">
      <code ref={code}>{text}</code>
      <button onClick={() => void copy()} aria-label={`Copy: ${text}`}>{copied || 'Copy'}</button>
      <span className="visually-hidden" role="status">{copied}</span>
    </span>
  )
}
