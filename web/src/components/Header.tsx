import { Link } from '@tanstack/react-router'

import type { Live } from '../api/events'
import type { components } from '../api/schema.gen'
import './Header.css'
import { Settings } from './Settings'

/** Header has the main navigation, the state of the event stream and the settings. */
export function Header({ session, live }: { session: components['schemas']['Session']; live: Live }) {
  return (
    <header className="top">
      <a className="skip" href="#content">Skip to the content</a>
      <Link to="/runs" className="brand"><img src="/icon.svg" alt="" width="22" height="22" />Drover</Link>
      <nav aria-label="Main">
        <Link to="/runs">Runs</Link>
        <Link to="/submit">Submit</Link>
        <Link to="/approvals">Approvals</Link>
        <Link to="/operations">Operations</Link>
        {session.scopes.includes('admin') && <Link to="/audit">Audit</Link>}
      </nav>
      <div className="end">
        <span className="live" data-live={live} role="status"><span>{{ live: 'live', connecting: 'connecting', lost: 'connection lost, trying again' }[live]}</span></span>
        <Settings session={session} />
      </div>
    </header>
  )
}
