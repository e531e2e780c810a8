import { useCallback, useState } from 'react'

/** usePreference keeps a choice of the reader in the browser. */
export function usePreference(name: string, fallback = false): [boolean, (on: boolean) => void] {
  const [on, setOn] = useState(() => (localStorage.getItem(name) ?? (fallback ? 'on' : 'off')) === 'on')
  const set = useCallback((value: boolean) => {
    localStorage.setItem(name, value ? 'on' : 'off')
    setOn(value)
  }, [name])
  return [on, set]
}
