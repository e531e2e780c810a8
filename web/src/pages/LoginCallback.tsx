import { useEffect, useState } from 'react'

import { apiUntil } from '../api/client'
import { messageOf } from '../api/problem'
import { base, below } from '../lib/base'
import { returnTo } from '../login/returnTo'
import { Login } from './Login'

// React renders twice in development, but the answer of the provider is of use once.
let completing: Promise<string> | undefined

/** complete exchanges the answer of the provider, and returns the page to show. */
async function complete(): Promise<string> {
  const query = new URLSearchParams(window.location.search)
  const text = (name: string) => query.get(name) ?? undefined
  // The code leaves the history of the browser at once.
  window.history.replaceState(null, '', below('/login/callback'))
  const answer = await apiUntil().POST('/api/v1/session/provider/complete', {
    body: { state: text('state') ?? '', code: text('code'), error: text('error'), error_description: text('error_description') },
  })
  return returnTo(answer.data!.return_to, window.location.origin, base)
}

/** LoginCallback is the page to which the identity provider sends the browser back. */
export function LoginCallback() {
  const [failure, setFailure] = useState<string>()
  useEffect(() => {
    completing ??= complete()
    completing.then(
      // A new load of the page: what was shown to another user is gone.
      (page) => window.location.replace(page),
      (error: unknown) => {
        setFailure(messageOf(error))
        completing = undefined
      },
    )
  }, [])
  if (failure) return <Login failure={failure} done={() => window.location.replace(below('/'))} />
  return <main className="login"><p role="status">Completing the login.</p></main>
}
