import { createRoute, lazyRouteComponent } from '@tanstack/react-router'

import { root } from '../router'

const operations = createRoute({
  getParentRoute: () => root, path: '/operations', component: lazyRouteComponent(() => import('./Operations'), 'Operations'),
})
const index = createRoute({ getParentRoute: () => operations, path: '/', component: lazyRouteComponent(() => import('./Operations'), 'FirstPage') })

/** afterOf reads where a page of a list begins. */
const afterOf = (search: Record<string, unknown>): { after?: string } => ({ after: typeof search.after === 'string' && search.after !== '' ? search.after : undefined })

const executors = createRoute({ getParentRoute: () => operations, path: '/executors', component: lazyRouteComponent(() => import('./Executors'), 'Executors') })
const executor = createRoute({ getParentRoute: () => operations, path: '/executors/$id', component: lazyRouteComponent(() => import('./ExecutorPage'), 'ExecutorPage') })
const pools = createRoute({ getParentRoute: () => operations, path: '/pools', component: lazyRouteComponent(() => import('./Pools'), 'Pools') })
const pool = createRoute({ getParentRoute: () => operations, path: '/pools/$name', component: lazyRouteComponent(() => import('./PoolPage'), 'PoolPage') })
const fleets = createRoute({ getParentRoute: () => operations, path: '/fleets', component: lazyRouteComponent(() => import('./Fleets'), 'Fleets') })
const fleet = createRoute({ getParentRoute: () => operations, path: '/fleets/$name', component: lazyRouteComponent(() => import('./FleetPage'), 'FleetPage') })
const changeGroups = createRoute({ getParentRoute: () => operations, path: '/changegroups', validateSearch: afterOf, component: lazyRouteComponent(() => import('./ChangeGroups'), 'ChangeGroups') })
const changeGroup = createRoute({ getParentRoute: () => operations, path: '/changegroups/$name', component: lazyRouteComponent(() => import('./ChangeGroupPage'), 'ChangeGroupPage') })
const schedules = createRoute({ getParentRoute: () => operations, path: '/schedules', validateSearch: afterOf, component: lazyRouteComponent(() => import('./Schedules'), 'Schedules') })
const schedule = createRoute({ getParentRoute: () => operations, path: '/schedules/$name', component: lazyRouteComponent(() => import('./SchedulePage'), 'SchedulePage') })
const webhooks = createRoute({ getParentRoute: () => operations, path: '/webhooks', component: lazyRouteComponent(() => import('./Webhooks'), 'Webhooks') })
const webhook = createRoute({ getParentRoute: () => operations, path: '/webhooks/$name', component: lazyRouteComponent(() => import('./WebhookPage'), 'WebhookPage') })
const tokens = createRoute({ getParentRoute: () => operations, path: '/tokens', component: lazyRouteComponent(() => import('./Tokens'), 'Tokens') })
const roles = createRoute({ getParentRoute: () => operations, path: '/roles', component: lazyRouteComponent(() => import('./Roles'), 'Roles') })
const retention = createRoute({ getParentRoute: () => operations, path: '/retention', component: lazyRouteComponent(() => import('./Retention'), 'Retention') })

export const operationsRoutes = operations.addChildren([
  index, executors, executor, pools, pool, fleets, fleet, changeGroups, changeGroup, schedules, schedule, webhooks, webhook, tokens, roles, retention,
])
