import { Link } from '@tanstack/react-router'

/** NextPage leads through lists that are read by name, a page at a time. */
export function NextPage({ to, after, next }: { to: '/operations/changegroups' | '/operations/schedules'; after?: string; next?: string }) {
  if (!after && !next) return null
  return (
    <nav className="pager" aria-label="Pages">
      {after && <Link to={to} search={{}} className="button">First page</Link>}
      {next && <Link to={to} search={{ after: next }} className="button">Next page</Link>}
    </nav>
  )
}
