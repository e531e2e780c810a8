import { useEffect } from 'react'

import { useAction } from '../api/action'
import type { Api } from '../api/client'
import { messageOf } from '../api/problem'
import { Unanswered } from '../components/Outcome'
import { base, below } from '../lib/base'
import { returnTo } from '../login/returnTo'
import { Login } from './Login'

/** complete exchanges the answer of the provider, and returns the page to show. */
async function complete(api: Api): Promise<string> {
  const query = new URLSearchParams(window.location.search)
  const text = (name: string) => query.get(name) ?? undefined
  // The code leaves the history of the browser at once.
  window.history.replaceState(null, '', below('/login/callback'))
  const answer = await api.POST('/api/v1/session/provider/complete', {
    body: { state: text('state') ?? '', code: text('code'), error: text('error'), error_description: text('error_description') },
  })
  return returnTo(answer.data!.return_to, window.location.origin, base)
}

/** LoginCallback is the page to which the identity provider sends the browser back. */
export function LoginCallback() {
  // A new load of the page: what was shown to another user is gone.
  const { run, slow, withdraw, error } = useAction({ act: complete, changes: [], onDone: (page) => window.location.replace(page) })
  useEffect(() => {
    // React mounts twice in development, but the answer of the provider is of use once.
    const begin = window.setTimeout(run)
    return () => window.clearTimeout(begin)
  }, [run])
  if (error !== null) return <Login failure={messageOf(error)} done={() => window.location.replace(below('/'))} />
  return (
    <main className="login">
      <p role="status">Completing the login.</p>
      <Unanswered action={{ slow, withdraw }} />
    </main>
  )
}
