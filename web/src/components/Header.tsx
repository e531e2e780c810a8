import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'

import type { Live } from '../api/events'
import type { components } from '../api/schema.gen'
import { below } from '../lib/base'
import { useRefusal } from '../lib/session'
import './Header.css'
import { mainPages } from './pages'
import { Settings } from './Settings'

/** Header has the main navigation, the state of the event stream and the settings. waiting stands at the link to the approvals, and find before the settings. */
export function Header({ session, live, waiting, find }: { session: components['schemas']['Session']; live: Live; waiting: ReactNode; find: ReactNode }) {
  const refusal = useRefusal()
  return (
    <header className="top">
      <a className="skip" href="#content">Skip to the content</a>
      <Link to="/runs" className="brand"><img src={below('/icon.svg')} alt="" width="22" height="22" />Drover</Link>
      <nav aria-label="Main">
        {mainPages.filter((p) => !refusal(p.needs)).map((p) => <Link key={p.to} to={p.to}>{p.label}{p.to === '/approvals' && waiting}</Link>)}
      </nav>
      <div className="end">
        <span className="live" data-live={live} role="status"><span>{{ live: 'live', connecting: 'connecting', lost: 'connection lost, trying again' }[live]}</span></span>
        {find}
        <Settings session={session} />
      </div>
    </header>
  )
}
