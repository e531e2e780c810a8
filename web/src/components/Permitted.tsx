import { Outlet, useRouterState } from '@tanstack/react-router'

import { useRefusal } from '../lib/session'
import { NotAllowed } from './NotAllowed'
import { pageAt, type PageOf } from './pages'

/** Permitted is the page at the present address, or what the user lacks to see it. */
export function Permitted({ pages }: { pages: readonly PageOf[] }) {
  const refusal = useRefusal()
  const page = useRouterState({ select: (state) => pageAt(pages, state.location.pathname) })
  const lacks = page && refusal(page.needs)
  return lacks ? <NotAllowed title={page.label} refusal={lacks} /> : <Outlet />
}
