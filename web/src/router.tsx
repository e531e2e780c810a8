import { useQuery, useQueryClient } from '@tanstack/react-query'
import { createRootRoute, createRoute, createRouter, lazyRouteComponent, Link, Outlet, redirect } from '@tanstack/react-router'

import { api, ProblemError } from './api/client'
import { LiveProvider, useEvents } from './api/events'
import { Failure } from './components/Notice'
import { setZone, useZone } from './lib/time'
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
  return <Pages subject={session.data.subject} expires={session.data.expires_at} />
}

function Pages({ subject, expires }: { subject: string; expires?: string }) {
  const queries = useQueryClient()
  const live = useEvents()
  const zone = useZone()
  return (
    <LiveProvider value={live}>
      <div className="app">
        <header className="top">
          <Link to="/runs" className="brand"><img src="/icon.svg" alt="" width="22" height="22" />Drover</Link>
          <nav aria-label="Main">
            <Link to="/runs">Runs</Link>
            <Link to="/submit">Submit</Link>
            <Link to="/approvals">Approvals</Link>
            <Link to="/operations">Operations</Link>
          </nav>
          <div className="end">
            <span className="muted">{subject}</span>
            {expires && <button onClick={() => void api.DELETE('/api/v1/session').finally(() => queries.resetQueries())}>Log out</button>}
            <button onClick={() => setZone(zone === 'utc' ? 'local' : 'utc')} title="Show times in local time or in UTC">{zone === 'utc' ? 'UTC' : 'Local time'}</button>
            <span className="live" data-live={live} role="status">{{ live: 'live', connecting: 'connecting', lost: 'connection lost, trying again' }[live]}</span>
          </div>
        </header>
        <main><Outlet /></main>
      </div>
    </LiveProvider>
  )
}

const root = createRootRoute({ component: Frame, notFoundComponent: () => <div className="empty"><h1>There is no such page.</h1><p><Link to="/runs">To the runs</Link></p></div> })

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

const submit = createRoute({
  getParentRoute: () => root,
  path: '/submit',
  validateSearch: (search: Record<string, unknown>): { from?: string; template?: string } => ({ from: text(search.from), template: text(search.template) }),
  component: lazyRouteComponent(() => import('./submit/Submit'), 'Submit'),
})

const operations = createRoute({ getParentRoute: () => root, path: '/operations', component: lazyRouteComponent(() => import('./pages/Operations'), 'Operations') })
const executors = createRoute({ getParentRoute: () => operations, path: '/', component: lazyRouteComponent(() => import('./pages/Operations'), 'Executors') })
const pools = createRoute({ getParentRoute: () => operations, path: '/pools', component: lazyRouteComponent(() => import('./pages/Operations'), 'Pools') })
const fleets = createRoute({ getParentRoute: () => operations, path: '/fleets', component: lazyRouteComponent(() => import('./pages/Operations'), 'Fleets') })
const changeGroups = createRoute({ getParentRoute: () => operations, path: '/changegroups', component: lazyRouteComponent(() => import('./pages/Operations'), 'ChangeGroups') })
const schedules = createRoute({ getParentRoute: () => operations, path: '/schedules', component: lazyRouteComponent(() => import('./pages/Operations'), 'Schedules') })
const webhooks = createRoute({ getParentRoute: () => operations, path: '/webhooks', component: lazyRouteComponent(() => import('./pages/Operations'), 'Webhooks') })
const approvals = createRoute({ getParentRoute: () => root, path: '/approvals', component: lazyRouteComponent(() => import('./pages/Operations'), 'Approvals') })

export const router = createRouter({
  routeTree: root.addChildren([
    home, runsRoute, submit, approvals,
    runRoute.addChildren([runGraph, runTimeline, runTasks, taskRoute]),
    operations.addChildren([executors, pools, fleets, changeGroups, schedules, webhooks]),
  ]),
  defaultPreload: 'intent',
})

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
}
