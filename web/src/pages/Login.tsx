import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useId, useState } from 'react'

import { api, messageOf } from '../api/client'
import { returnTo } from '../login/returnTo'
import '../login/login.css'

/**
 * Login exchanges a bearer token, or a login at the identity provider, for a session. The page keeps the token nowhere. Without
 * done, the page that asked for the login is shown again.
 */
export function Login({ failure, done }: { failure?: string; done?: () => void }) {
  const options = useQuery({
    queryKey: ['login-options'],
    queryFn: async ({ signal }) => (await api.GET('/api/v1/session/options', { signal })).data!,
  })
  const provider = options.data?.provider
  return (
    <main className="login">
      <div className="card">
        <h1><img src="/icon.svg" alt="" width="28" height="28" /> Log in to Drover</h1>
        {failure && <p role="alert" className="notice failed">{failure}</p>}
        {provider && (
          <>
            <ProviderLogin name={provider.name} />
            <p className="or">or with a token</p>
          </>
        )}
        <TokenLogin focus={!options.isPending && !provider} primary={!provider} done={done} />
        {!provider && (
          <p className="muted">
            <code>drover dev</code> prints where its token is. On a server an administrator makes one: <code>drover tokens create --name NAME --scopes read,write</code>
          </p>
        )}
      </div>
    </main>
  )
}

function ProviderLogin({ name }: { name: string }) {
  const login = useMutation({
    mutationFn: async () => {
      const page = window.location.pathname + window.location.search
      return (await api.POST('/api/v1/session/provider', { body: { return_to: returnTo(page, window.location.origin) } })).data!
    },
    onSuccess: ({ url }) => window.location.assign(url),
  })
  return (
    <>
      <button className="primary" autoFocus disabled={login.isPending || login.isSuccess} onClick={() => login.mutate()}>Log in with {name}</button>
      {login.error && <p role="alert" className="notice failed">{messageOf(login.error)}<br />You can log in with a token.</p>}
    </>
  )
}

function TokenLogin({ focus, primary, done }: { focus: boolean; primary: boolean; done?: () => void }) {
  const queries = useQueryClient()
  const [token, setToken] = useState('')
  const id = useId()
  const login = useMutation({
    mutationFn: () => api.POST('/api/v1/session', { body: { token: token.trim() } }),
    onSuccess: () => {
      setToken('')
      return done ? done() : queries.resetQueries()
    },
  })
  return (
    <form
      onSubmit={(e) => {
        e.preventDefault()
        login.mutate()
      }}
    >
      <label htmlFor={id}>Token</label>
      <input key={String(focus)} id={id} type="password" autoComplete="current-password" autoFocus={focus} required value={token} onChange={(e) => setToken(e.target.value)} />
      <button className={primary ? 'primary' : ''} disabled={login.isPending || token.trim() === ''}>Log in</button>
      {login.error && <p role="alert" className="notice failed">{messageOf(login.error)}</p>}
    </form>
  )
}
