import { restricted, rightsOf } from '../lib/permissions'
import { useSession } from '../lib/session'

/** NotAllowed is shown instead of a page that the user may not see. */
export function NotAllowed({ title, refusal }: { title: string; refusal: string }) {
  return (
    <>
      <h1>{title}</h1>
      <div className="notice failed" role="alert">
        <strong>{refusal}</strong>
        <Rights />
      </div>
    </>
  )
}

/** Rights says who the user is, and with which roles or scopes. */
export function Rights() {
  const session = useSession()
  if (session.subject === '') return null // the page does not know yet
  return <p>You are <strong>{session.subject}</strong>, with {rightsOf(session)}. An administrator can give you {restricted(session) ? 'more roles' : 'a token with more scopes'}.</p>
}
