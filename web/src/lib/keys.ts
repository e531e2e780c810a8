import { useEffect, useRef } from 'react'

/** useKeys calls functions for single keys, unless the user types, holds a modifier or has a dialog open. */
export function useKeys(keys: Readonly<Record<string, () => void>>) {
  const current = useRef(keys)
  useEffect(() => {
    current.current = keys
  })
  useEffect(() => {
    const listen = (e: KeyboardEvent) => {
      if (e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented || e.isComposing) return
      const target = e.target as HTMLElement
      if (target.closest('input:not([type=checkbox]), select, textarea, [contenteditable], dialog') || document.querySelector('dialog[open]')) return
      // A link or button that has the focus keeps the keys that press it.
      if ((e.key === 'Enter' || e.key === ' ') && target.closest('a, button, input, summary')) return
      const call = Object.hasOwn(current.current, e.key) ? current.current[e.key] : undefined
      if (!call) return
      e.preventDefault()
      call()
    }
    window.addEventListener('keydown', listen)
    return () => window.removeEventListener('keydown', listen)
  }, [])
}
