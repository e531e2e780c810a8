import { Link, Outlet } from '@tanstack/react-router'

import './Operations.css'

/** Operations is the frame of the pages for those who operate a server. */
export function Operations() {
  return (
    <>
      <nav className="tabs" aria-label="Operations">
        <Link to="/operations/executors">Executors</Link>
        <Link to="/operations/pools">Pools</Link>
        <Link to="/operations/fleets">Fleets</Link>
        <Link to="/operations/changegroups">Change groups</Link>
        <Link to="/operations/schedules">Schedules</Link>
        <Link to="/operations/webhooks">Webhooks</Link>
        <Link to="/operations/tokens">Tokens</Link>
        <Link to="/operations/retention">Retention</Link>
      </nav>
      <Outlet />
    </>
  )
}
