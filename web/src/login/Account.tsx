import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useEffect, useRef } from 'react'

import { api, messageOf } from '../api/client'
import { timestamp, useZone } from '../lib/time'
import './login.css'

/** Account says who the user is, and ends the session of this browser or all of them. */
export function Account({ subject, scopes, expires }: { subject: string; scopes: string[]; expires?: string }) {
  const queries = useQueryClient()
  const zone = useZone()
  const menu = useRef<HTMLDetailsElement>(null)
  const logout = useMutation({
    mutationFn: async (everywhere: boolean) => (await api.DELETE('/api/v1/session', { params: { query: { everywhere } }, body: {} })).data,
    onSuccess: (ended) => {
      // The provider's page ends the login there, and sends the browser back.
      if (ended?.logout_url) window.location.assign(ended.logout_url)
      else return queries.resetQueries()
    },
  })
  useEffect(() => {
    const close = (e: Event) => {
      const open = menu.current
      if (!open?.open) return
      if (e instanceof KeyboardEvent ? e.key === 'Escape' : !open.contains(e.target as Node)) open.open = false
    }
    document.addEventListener('keydown', close)
    document.addEventListener('pointerdown', close)
    return () => {
      document.removeEventListener('keydown', close)
      document.removeEventListener('pointerdown', close)
    }
  }, [])
  return (
    <details className="account" ref={menu}>
      <summary title={subject}>{subject}</summary>
      <div className="menu">
        <p><strong>{subject}</strong><br /><span className="muted">{scopes.join(', ')}</span></p>
        {expires ? (
          <>
            <p className="muted">The session ends at {timestamp(expires, zone)}, or earlier when it is not used.</p>
            <button onClick={() => logout.mutate(false)} disabled={logout.isPending}>Log out</button>
            <button onClick={() => logout.mutate(true)} disabled={logout.isPending}>Log out everywhere</button>
          </>
        ) : (
          <p className="muted">This gateway needs no login.</p>
        )}
        {logout.error && <p role="alert" className="notice failed">{messageOf(logout.error)}</p>}
      </div>
    </details>
  )
}
