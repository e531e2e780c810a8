import { useQuery } from '@tanstack/react-query'
import { createRootRoute, createRoute, createRouter, lazyRouteComponent, Outlet, redirect } from '@tanstack/react-router'

import { api, ProblemError } from './api/client'
import { LiveProvider, useEvents } from './api/events'
import type { components } from './api/schema.gen'
import { Footer } from './components/Footer'
import { Header } from './components/Header'
import { NotFound } from './components/NotFound'
import { Failure } from './components/Notice'
import { operationsRoutes } from './operations/routes'
import { Login } from './pages/Login'
import { Runs, type RunFilters } from './pages/Runs'

/** Frame asks who the user is, and for a login where the gateway needs one. */
function Frame() {
  const session = useQuery({
    queryKey: ['session'],
    queryFn: async ({ signal }) => (await api.GET('/api/v1/session', { signal })).data!,
  })
  if (session.error instanceof ProblemError && session.error.status === 401) return <Login />
  if (!session.data) return session.error ? <main><Failure error={session.error} /></main> : <p className="visually-hidden">Loading</p>
  return <Pages session={session.data} />
}

function Pages({ session }: { session: components['schemas']['Session'] }) {
  const live = useEvents()
  return (
    <LiveProvider value={live}>
      <div className="app">
        <Header session={session} live={live} />
        <main id="content" tabIndex={-1}><Outlet /></main>
        <Footer />
      </div>
    </LiveProvider>
  )
}

export const root = createRootRoute({ component: Frame, notFoundComponent: NotFound })

const texts = (value: unknown): string[] | undefined => {
  const list = (Array.isArray(value) ? value : [value]).filter((v): v is string => typeof v === 'string' && v !== '')
  return list.length > 0 ? list : undefined
}
const text = (value: unknown) => (typeof value === 'string' || typeof value === 'number' ? String(value) : undefined)

const home = createRoute({ getParentRoute: () => root, path: '/', beforeLoad: () => { throw redirect({ to: '/runs', replace: true }) } })

export const runsRoute = createRoute({
  getParentRoute: () => root,
  path: '/runs',
  validateSearch: (search: Record<string, unknown>): RunFilters => ({
    phase: texts(search.phase), result: texts(search.result), group: text(search.group), changegroup: text(search.changegroup),
    annotation: text(search.annotation), cursor: text(search.cursor),
  }),
  component: Runs,
})

export const runRoute = createRoute({
  getParentRoute: () => root,
  path: '/runs/$id',
  component: lazyRouteComponent(() => import('./pages/Run'), 'RunPage'),
})
const runGraph = createRoute({ getParentRoute: () => runRoute, path: '/', component: lazyRouteComponent(() => import('./run/Graph'), 'GraphTab') })
const runTimeline = createRoute({ getParentRoute: () => runRoute, path: '/timeline', component: lazyRouteComponent(() => import('./run/Timeline'), 'TimelineTab') })
const runTasks = createRoute({ getParentRoute: () => runRoute, path: '/tasks', component: lazyRouteComponent(() => import('./run/TaskTable'), 'TasksTab') })
export const taskRoute = createRoute({
  getParentRoute: () => runRoute,
  path: '/tasks/$task',
  validateSearch: (search: Record<string, unknown>): { attempt?: number; line?: number } => ({
    attempt: Number(search.attempt) || undefined, line: Number(search.line) || undefined,
  }),
  component: lazyRouteComponent(() => import('./run/TaskLog'), 'TaskLog'),
})

const approvals = createRoute({ getParentRoute: () => root, path: '/approvals', validateSearch: (search: Record<string, unknown>): { after?: string } => ({ after: text(search.after) }), component: lazyRouteComponent(() => import('./pages/Approvals'), 'Approvals') })

export const router = createRouter({
  routeTree: root.addChildren([
    home, runsRoute, approvals,
    runRoute.addChildren([runGraph, runTimeline, runTasks, taskRoute]),
    operationsRoutes,
  ]),
  defaultPreload: 'intent',
})

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
}
