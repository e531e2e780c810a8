import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useId, useState } from 'react'

import { api, messageOf } from '../api/client'

/** Login exchanges a bearer token for a session. The page keeps the token nowhere. */
export function Login() {
  const queries = useQueryClient()
  const [token, setToken] = useState('')
  const id = useId()
  const login = useMutation({
    mutationFn: () => api.POST('/api/v1/session', { body: { token: token.trim() } }),
    onSuccess: () => {
      setToken('')
      return queries.resetQueries()
    },
  })
  return (
    <main className="login">
      <form
        onSubmit={(e) => {
          e.preventDefault()
          login.mutate()
        }}
      >
        <h1><img src="/icon.svg" alt="" width="28" height="28" /> Log in to Drover</h1>
        <label htmlFor={id}>Token</label>
        <input id={id} type="password" autoComplete="current-password" autoFocus required value={token} onChange={(e) => setToken(e.target.value)} />
        <button className="primary" disabled={login.isPending || token.trim() === ''}>Log in</button>
        {login.error && <p role="alert" className="notice failed">{messageOf(login.error)}</p>}
        <p className="muted">
          <code>drover dev</code> prints where its token is. On a server an administrator makes one: <code>drover tokens create --name NAME --scopes read,write</code>
        </p>
      </form>
    </main>
  )
}
