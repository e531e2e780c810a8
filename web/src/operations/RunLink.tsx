import { Link } from '@tanstack/react-router'

/** RunLink leads to a run of which only the id is known. */
export function RunLink({ id }: { id: string }) {
  return <Link className="mono" to="/runs/$id" params={{ id }}>{id}</Link>
}
