import { useQuery, type UseQueryResult } from '@tanstack/react-query'

import type { Run } from '../api/client'
import { useRefusal } from '../lib/session'
import { outcome } from '../lib/status'
import { executorsQuery, fleetsQuery, poolsQuery, webhooksQuery } from '../operations/queries'
import { pathOf, type Entry } from './entries'
import { changeGroupsQuery, namedQuery, newestQuery, once, runQuery, schedulesQuery } from './queries'

/** From how many characters on a text may be the beginning of an id: those of the newest runs begin with the same ones. */
const minID = 6

/** useEntries reads what a text may stand for, and what a user may list at all. */
export function useEntries(text: string): { entries: Entry[]; queries: UseQueryResult[] } {
  const refusal = useRefusal()
  const may = (operation: Parameters<typeof refusal>[0]) => ({ enabled: refusal(operation) === undefined })
  const run = useQuery(runQuery(text))
  const named = useQuery(namedQuery(text))
  const newest = useQuery(newestQuery)
  const pools = useQuery({ ...poolsQuery, ...once, ...may('listPools') })
  const fleets = useQuery({ ...fleetsQuery, ...once, ...may('listFleets') })
  const executors = useQuery({ ...executorsQuery, ...once, ...may('listExecutors') })
  const webhooks = useQuery({ ...webhooksQuery, ...once, ...may('listWebhooks') })
  const schedules = useQuery({ ...schedulesQuery(text), ...may('listSchedules') })
  const changeGroups = useQuery({ ...changeGroupsQuery(text), ...may('listChangeGroups') })
  const group = pathOf(text)
  const id = text.toLowerCase()
  const begun = id.length < minID ? [] : (newest.data ?? []).filter((r) => r.id.startsWith(id))
  const names = [...(named.data ?? []), ...(newest.data ?? [])].map((r) => r.name)
  const entries: Entry[] = [
    ...[...(run.data ? [run.data] : []), ...begun].map((r): Entry => ({ ...runEntry(r), name: r.id, detail: `${r.name}, ${outcome(r).label}, ${r.group}` })),
    ...names.map((name): Entry => ({ kind: 'runs', name, detail: 'all runs of this name', link: { to: '/runs', search: { name } } })),
    ...(named.data ?? []).map(runEntry),
    ...(pools.data ?? []).map(({ name }): Entry => ({ kind: 'pool', name, link: { to: '/operations/pools/$name', params: { name } } })),
    ...(fleets.data ?? []).map(({ name }): Entry => ({ kind: 'fleet', name, link: { to: '/operations/fleets/$name', params: { name } } })),
    ...(executors.data ?? []).map(({ id, pool }): Entry => ({ kind: 'executor', name: id, detail: `of the pool ${pool}`, link: { to: '/operations/executors/$id', params: { id } } })),
    ...(changeGroups.data ?? []).map(({ name }): Entry => ({ kind: 'change group', name, link: { to: '/operations/changegroups/$name', params: { name } } })),
    ...(schedules.data ?? []).map(({ name }): Entry => ({ kind: 'schedule', name, link: { to: '/operations/schedules/$name', params: { name } } })),
    ...(webhooks.data ?? []).map(({ name }): Entry => ({ kind: 'webhook', name, link: { to: '/operations/webhooks/$name', params: { name } } })),
    ...(group ? [{ kind: 'group', name: group, detail: 'all runs of this group', link: { to: '/runs', search: { group } } } satisfies Entry] : []),
  ]
  return { entries, queries: [run, named, newest, pools, fleets, executors, webhooks, schedules, changeGroups] }
}

function runEntry(run: Run): Entry {
  return { kind: 'run', name: run.name, detail: `${outcome(run).label}, ${run.group}, ${run.id}`, link: { to: '/runs/$id', params: { id: run.id } } }
}
