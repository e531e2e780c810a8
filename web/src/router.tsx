import { useQuery } from '@tanstack/react-query'
import { createRootRoute, createRoute, createRouter, lazyRouteComponent, redirect, useRouterState } from '@tanstack/react-router'

import { api } from './api/client'
import { ProblemError } from './api/problem'
import { LiveProvider, useEvents } from './api/events'
import { readFilters } from './audit/audit'
import { Broken } from './components/Broken'
import { Footer } from './components/Footer'
import { Header } from './components/Header'
import { NotFound } from './components/NotFound'
import { Loaded } from './components/Loaded'
import { FindButton } from './find/FindButton'
import { base } from './lib/base'
import { mainPages } from './components/pages'
import { Permitted } from './components/Permitted'
import type { Session as Caller } from './lib/permissions'
import { SessionContext } from './lib/session'
import { operationsRoutes } from './operations/routes'
import { WaitingApprovals } from './operations/WaitingApprovals'
import { Login } from './pages/Login'
import { LoginCallback } from './pages/LoginCallback'
import { Runs } from './pages/Runs'
import type { ResultsSearch } from './run/results/ResultsTab'
import type { SpecView } from './run/SpecTab'
import { taskFiltersOf } from './run/tasks'
import { filtersOf } from './runs/filters'

/** Frame asks who the user is, and for a login where the gateway needs one. */
function Frame() {
  const callback = useRouterState({ select: (state) => state.location.pathname === '/login/callback' })
  return callback ? <LoginCallback /> : <Session />
}

function Session() {
  const session = useQuery({
    queryKey: ['session'],
    queryFn: async ({ signal }) => (await api.GET('/api/v1/session', { signal })).data!,
  })
  if (session.error instanceof ProblemError && session.error.status === 401) return <Login ended={session.data !== undefined} />
  if (!session.data) return <main><Loaded query={session} loading={<span className="visually-hidden">Loading</span>}>{() => null}</Loaded></main>
  return <Pages session={session.data} />
}

function Pages({ session }: { session: Caller }) {
  const live = useEvents(session.subject)
  return (
    <SessionContext value={session}>
      <LiveProvider value={live}>
        <div className="app">
          <Header session={session} live={live} waiting={<WaitingApprovals />} find={<FindButton />} />
          <main id="content" tabIndex={-1}><Permitted pages={mainPages} /></main>
          <Footer />
        </div>
      </LiveProvider>
    </SessionContext>
  )
}

export const root = createRootRoute({ component: Frame, notFoundComponent: NotFound })

const text = (value: unknown) => (typeof value === 'string' || typeof value === 'number' ? String(value) : undefined)

// Frame shows the page.
const callback = createRoute({ getParentRoute: () => root, path: '/login/callback', component: () => null })
const home = createRoute({ getParentRoute: () => root, path: '/', beforeLoad: () => { throw redirect({ to: '/runs', replace: true }) } })

export const runsRoute = createRoute({
  getParentRoute: () => root,
  path: '/runs',
  validateSearch: filtersOf,
  component: Runs,
})

const groups = createRoute({
  getParentRoute: () => root,
  path: '/runs/groups',
  validateSearch: (search: Record<string, unknown>): { under?: string } => ({ under: text(search.under) }),
  component: lazyRouteComponent(() => import('./pages/Groups'), 'Groups'),
})

export const runRoute = createRoute({
  getParentRoute: () => root,
  path: '/runs/$id',
  component: lazyRouteComponent(() => import('./pages/Run'), 'RunPage'),
})
const runGraph = createRoute({ getParentRoute: () => runRoute, path: '/', component: lazyRouteComponent(() => import('./run/graph/Graph'), 'GraphTab') })
const runTimeline = createRoute({ getParentRoute: () => runRoute, path: '/timeline', component: lazyRouteComponent(() => import('./run/Timeline'), 'TimelineTab') })
const runTasks = createRoute({ getParentRoute: () => runRoute, path: '/tasks', validateSearch: taskFiltersOf, component: lazyRouteComponent(() => import('./run/TaskTable'), 'TasksTab') })
export const taskRoute = createRoute({
  getParentRoute: () => runRoute,
  path: '/tasks/$task',
  validateSearch: (search: Record<string, unknown>): { attempt?: number; line?: number; service?: string } => ({
    attempt: Number(search.attempt) || undefined, line: Number(search.line) || undefined, service: search.service === undefined ? undefined : String(search.service),
  }),
  component: lazyRouteComponent(() => import('./run/TaskLog'), 'TaskLog'),
})

const submit = createRoute({
  getParentRoute: () => root,
  path: '/submit',
  validateSearch: (search: Record<string, unknown>): { from?: string; template?: string } => ({ from: text(search.from), template: text(search.template) }),
  component: lazyRouteComponent(() => import('./submit/Submit'), 'Submit'),
})

const runResults = createRoute({
  getParentRoute: () => runRoute,
  path: '/results',
  validateSearch: (search: Record<string, unknown>): ResultsSearch => ({ task: text(search.task), artifact: text(search.artifact), path: text(search.path) }),
  component: lazyRouteComponent(() => import('./run/results/ResultsTab'), 'ResultsTab'),
})
const runSpec = createRoute({
  getParentRoute: () => runRoute,
  path: '/spec',
  validateSearch: (search: Record<string, unknown>): { view?: SpecView } => ({ view: search.view === 'json' || search.view === 'diff' ? search.view : undefined }),
  component: lazyRouteComponent(() => import('./run/SpecTab'), 'SpecTab'),
})
const runDetails = createRoute({ getParentRoute: () => runRoute, path: '/details', component: lazyRouteComponent(() => import('./run/DetailsTab'), 'DetailsTab') })

const approvals = createRoute({ getParentRoute: () => root, path: '/approvals', validateSearch: (search: Record<string, unknown>): { after?: string } => ({ after: text(search.after) }), component: lazyRouteComponent(() => import('./pages/Approvals'), 'Approvals') })

const audit = createRoute({
  getParentRoute: () => root,
  path: '/audit',
  validateSearch: readFilters,
  component: lazyRouteComponent(() => import('./pages/Audit'), 'Audit'),
})

export const router = createRouter({
  routeTree: root.addChildren([
    home, callback, runsRoute, groups, submit, approvals, audit,
    runRoute.addChildren([runGraph, runTimeline, runTasks, taskRoute, runResults, runSpec, runDetails]),
    operationsRoutes,
  ]),
  basepath: base || '/',
  defaultPreload: 'intent',
  defaultErrorComponent: Broken,
})

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
}
