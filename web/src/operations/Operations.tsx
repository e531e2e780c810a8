import { Link, Navigate } from '@tanstack/react-router'

import { operationsPages } from '../components/pages'
import { Permitted } from '../components/Permitted'
import { useRefusal } from '../lib/session'
import './Operations.css'

/** Operations is the frame of the pages for those who operate a server. It offers the pages that the user may see. */
export function Operations() {
  const refusal = useRefusal()
  return (
    <>
      <nav className="tabs" aria-label="Operations">
        {operationsPages.filter((p) => !refusal(p.needs)).map((p) => <Link key={p.to} to={p.to}>{p.label}</Link>)}
      </nav>
      <Permitted pages={operationsPages} />
    </>
  )
}

/** FirstPage leads to the first page that the user may see. */
export function FirstPage() {
  const refusal = useRefusal()
  const first = operationsPages.find((p) => !refusal(p.needs))
  return first && <Navigate to={first.to} replace />
}
