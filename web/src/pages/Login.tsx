import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useId, useState } from 'react'

import { isWithdrawn, useAction } from '../api/action'
import { api } from '../api/client'
import { isTemporary, messageOf } from '../api/problem'
import { pauseAfter } from '../api/pause'
import { Failed } from '../components/Loaded'
import { Unanswered } from '../components/Outcome'
import { below } from '../lib/base'
import { beginLogin, canBegin } from '../login/provider'
import '../login/login.css'

/**
 * Login exchanges a bearer token, or a login at the identity provider, for a session. The page keeps the token nowhere. Without
 * done, the page that asked for the login is shown again; ended says that it was open when its session ended.
 */
export function Login({ failure, ended = false, done }: { failure?: string; ended?: boolean; done?: () => void }) {
  const options = useQuery({
    queryKey: ['login-options'],
    queryFn: async ({ signal }) => (await api.GET('/api/v1/session/options', { signal })).data!,
  })
  const provider = options.data?.provider
  return (
    <main className="login">
      <div className="card">
        <h1><img src={below('/icon.svg')} alt="" width="28" height="28" /> Log in to Drover</h1>
        {failure && <p role="alert" className="notice failed">{failure}</p>}
        {ended && <p role="status" className="notice">Your session has ended. Log in again to continue where you were.</p>}
        <Failed query={options} />
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

/** The longest pause between two questions whether the provider is back. */
const longestPause = 30_000

/** ProviderLogin goes to the page of the provider. If it is down, it says so, and asks again until it is back. */
function ProviderLogin({ name }: { name: string }) {
  const [tries, setTries] = useState(0)
  const login = useAction({ act: beginLogin, changes: [], onDone: (url) => window.location.assign(url) })
  const down = !!login.error && isTemporary(login.error) && !isWithdrawn(login.error)
  const back = useQuery({
    queryKey: ['login-provider', tries],
    enabled: down,
    gcTime: 0,
    queryFn: canBegin,
    retryDelay: (before) => Math.min(longestPause, 4 * pauseAfter(before + 1)),
  })
  const returned = down && back.data === true
  return (
    <>
      <button
        className="primary" autoFocus disabled={login.waiting || login.done}
        onClick={() => {
          setTries(tries + 1)
          login.run()
        }}
      >
        Log in with {name}
      </button>
      <Unanswered action={login} />
      {returned && <p role="status" className="notice">{name} can be used again.</p>}
      {login.error !== null && !returned && (
        <div className="notice failed">
          <p role="alert">{messageOf(login.error)}</p>
          <p>You can log in with a token.{down && ` The page asks ${name} again by itself.`}</p>
        </div>
      )}
    </>
  )
}

function TokenLogin({ focus, primary, done }: { focus: boolean; primary: boolean; done?: () => void }) {
  const queries = useQueryClient()
  const [token, setToken] = useState('')
  const id = useId()
  const login = useAction({
    act: (api) => api.POST('/api/v1/session', { body: { token: token.trim() } }),
    changes: [],
    onDone: () => {
      setToken('')
      if (done) done()
      else void queries.resetQueries()
    },
  })
  return (
    <form
      onSubmit={(e) => {
        e.preventDefault()
        login.run()
      }}
    >
      <label htmlFor={id}>Token</label>
      <input key={String(focus)} id={id} type="password" autoComplete="current-password" autoFocus={focus} required value={token} onChange={(e) => setToken(e.target.value)} />
      <button className={primary ? 'primary' : ''} disabled={login.waiting || token.trim() === ''}>Log in</button>
      <Unanswered action={login} />
      {login.error !== null && <p role="alert" className="notice failed">{messageOf(login.error)}</p>}
    </form>
  )
}
