import type { Operation } from '../lib/permissions'

/** A PageOf is a page of a navigation, with the operation that it is of no use without. */
export interface PageOf {
  to: string
  label: string
  needs: Operation
}

/** The pages of the main navigation. */
export const mainPages = [
  { to: '/runs', label: 'Runs', needs: 'listRuns' },
  { to: '/submit', label: 'Submit', needs: 'createRun' },
  { to: '/approvals', label: 'Approvals', needs: 'listApprovals' },
  { to: '/operations', label: 'Operations', needs: 'listPools' },
  { to: '/audit', label: 'Audit', needs: 'listAuditRecords' },
] as const satisfies readonly PageOf[]

/** The pages of the operations. */
export const operationsPages = [
  { to: '/operations/executors', label: 'Executors', needs: 'listExecutors' },
  { to: '/operations/pools', label: 'Pools', needs: 'listPools' },
  { to: '/operations/fleets', label: 'Fleets', needs: 'listFleets' },
  { to: '/operations/changegroups', label: 'Change groups', needs: 'listChangeGroups' },
  { to: '/operations/schedules', label: 'Schedules', needs: 'listSchedules' },
  { to: '/operations/webhooks', label: 'Webhooks', needs: 'listWebhooks' },
  { to: '/operations/tokens', label: 'Tokens', needs: 'listTokens' },
  { to: '/operations/roles', label: 'Roles', needs: 'listRoleGrants' },
  { to: '/operations/retention', label: 'Retention', needs: 'getRetention' },
] as const satisfies readonly PageOf[]

/** pageAt returns the page to which an address belongs. */
export function pageAt<P extends PageOf>(pages: readonly P[], address: string): P | undefined {
  return pages.find((p) => address === p.to || address.startsWith(`${p.to}/`))
}
