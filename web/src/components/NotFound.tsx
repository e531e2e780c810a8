import { Link } from '@tanstack/react-router'

/** NotFound is shown at addresses that no page has. */
export function NotFound() {
  return (
    <div className="empty">
      <h1>There is no such page.</h1>
      <p>The address <span className="mono">{window.location.pathname}</span> belongs to no page of Drover.</p>
      <p><Link to="/runs" className="button">To the runs</Link></p>
    </div>
  )
}
