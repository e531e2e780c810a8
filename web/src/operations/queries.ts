import { keepPreviousData, queryOptions } from '@tanstack/react-query'

import { api } from '../api/client'
import { readOn } from '../api/list'
import type { components } from '../api/schema.gen'

export type Schemas = components['schemas']

/**
 * What these pages show changes with the events of tasks and runs (see useLiveQuery), and also without any: an executor
 * that falls silent, an instance that becomes ready. So it is also read again when the user comes back to the page, and
 * from time to time while the page is visible.
 */
const figures = { staleTime: 2_000, refetchOnWindowFocus: true, refetchInterval: 15_000 } as const

/** The settings that only users change. */
const settings = { staleTime: 2_000, refetchOnWindowFocus: true } as const

export const executorsQuery = queryOptions({
  queryKey: ['executors'], ...figures,
  queryFn: async ({ signal }) => (await api.GET('/api/v1/executors', { signal })).data!.executors,
})
export const executorQuery = (id: string) => queryOptions({
  queryKey: ['executors', id], ...figures,
  queryFn: async ({ signal }) => (await api.GET('/api/v1/executors/{id}', { signal, params: { path: { id } } })).data!,
})

export const poolsQuery = queryOptions({
  queryKey: ['pools'], ...figures,
  queryFn: async ({ signal }) => (await api.GET('/api/v1/pools', { signal })).data!.pools,
})
export const poolQuery = (name: string) => queryOptions({
  queryKey: ['pools', name], ...figures,
  queryFn: async ({ signal }) => (await api.GET('/api/v1/pools/{name}', { signal, params: { path: { name } } })).data!,
})

export const fleetsQuery = queryOptions({
  queryKey: ['fleets'], ...figures,
  queryFn: async ({ signal }) => (await api.GET('/api/v1/fleets', { signal })).data!.fleets,
})
export const fleetQuery = (name: string) => queryOptions({
  queryKey: ['fleets', name], ...figures, refetchInterval: 5_000,
  queryFn: async ({ signal }) => (await api.GET('/api/v1/fleets/{name}', { signal, params: { path: { name } } })).data!,
})
export const instancesQuery = (name: string) => queryOptions({
  queryKey: ['fleets', name, 'instances'], ...figures, refetchInterval: 5_000,
  queryFn: async ({ signal }) => (await api.GET('/api/v1/fleets/{name}/instances', { signal, params: { path: { name } } })).data!.instances,
})
/** The instances that are gone: up to a thousand, so they are only read again when an instance has gone. */
export const goneQuery = (name: string) => queryOptions({
  queryKey: ['fleets', name, 'gone'], ...settings, refetchOnWindowFocus: false,
  queryFn: async ({ signal }) => (await api.GET('/api/v1/fleets/{name}/instances', { signal, params: { path: { name }, query: { gone: true } } })).data!.instances.filter((i) => i.state === 'gone'),
})
export const fleetEventsQuery = (name: string) => queryOptions({
  queryKey: ['fleets', name, 'events'], ...figures,
  queryFn: async ({ signal }) => (await api.GET('/api/v1/fleets/{name}/events', { signal, params: { path: { name }, query: { limit: 200 } } })).data!.events,
})
export const rolloutQuery = (name: string) => queryOptions({
  queryKey: ['fleets', name, 'rollout'], ...figures,
  queryFn: async ({ signal }) => (await api.GET('/api/v1/fleets/{name}/rollout', { signal, params: { path: { name } } })).data!,
})

export const changeGroupsQuery = (after?: string) => queryOptions({
  queryKey: ['changegroups', { after }], ...settings, placeholderData: keepPreviousData,
  queryFn: ({ signal }) => readOn('changegroups', after, async (after) => (await api.GET('/api/v1/changegroups', { signal, params: { query: { after, limit: 50 } } })).data!),
})
export const changeGroupQuery = (name: string) => queryOptions({
  queryKey: ['changegroups', name], ...settings,
  queryFn: async ({ signal }) => (await api.GET('/api/v1/changegroups/{name}', { signal, params: { path: { name } } })).data!,
})
/** The names and phases of the open runs of a change group, which the group itself has by id only. */
export const changeGroupRunsQuery = (name: string) => queryOptions({
  queryKey: ['changegroups', name, 'runs'], ...settings,
  queryFn: async ({ signal }) => (await api.GET('/api/v1/runs', { signal, params: { query: { changegroup: [name], phase: ['queued', 'running'], limit: 100 } } })).data!.runs,
})

export const schedulesQuery = (after?: string) => queryOptions({
  queryKey: ['schedules', { after }], ...figures, placeholderData: keepPreviousData,
  queryFn: ({ signal }) => readOn('schedules', after, async (after) => (await api.GET('/api/v1/schedules', { signal, params: { query: { after, limit: 50 } } })).data!),
})
export const scheduleQuery = (name: string) => queryOptions({
  queryKey: ['schedules', name], ...figures,
  queryFn: async ({ signal }) => (await api.GET('/api/v1/schedules/{name}', { signal, params: { path: { name } } })).data!,
})

export const webhooksQuery = queryOptions({
  queryKey: ['webhooks'], ...figures,
  queryFn: async ({ signal }) => (await api.GET('/api/v1/webhooks', { signal })).data!.webhooks,
})
export const webhookQuery = (name: string) => queryOptions({
  queryKey: ['webhooks', name], ...figures, refetchInterval: 5_000,
  queryFn: async ({ signal }) => (await api.GET('/api/v1/webhooks/{name}', { signal, params: { path: { name } } })).data!,
})

export const tokensQuery = queryOptions({
  queryKey: ['tokens'], ...settings,
  queryFn: async ({ signal }) => (await api.GET('/api/v1/tokens', { signal })).data!.tokens,
})

/** The role grants, null if the gateway has no identity provider. */
export const roleGrantsQuery = queryOptions({
  queryKey: ['rolegrants'], ...settings,
  queryFn: async ({ signal }) => {
    const { provider } = (await api.GET('/api/v1/session/options', { signal })).data!
    return provider ? (await api.GET('/api/v1/rolegrants', { signal })).data! : null
  },
})

export const retentionQuery = queryOptions({
  queryKey: ['retention'], ...figures,
  queryFn: async ({ signal }) => (await api.GET('/api/v1/retention', { signal })).data!,
})

export const approvalsQuery = (after?: string) => queryOptions({
  queryKey: ['approvals', { after }], ...settings, placeholderData: keepPreviousData,
  queryFn: ({ signal }) => readOn('approvals', after, async (after) => (await api.GET('/api/v1/approvals', { signal, params: { query: { after } } })).data!),
})

/** The first tasks that wait for approval, which the header counts. */
export const waitingQuery = queryOptions({
  queryKey: ['approvals', 'waiting'], ...settings,
  queryFn: ({ signal }) => readOn('approvals', undefined, async (after) => (await api.GET('/api/v1/approvals', { signal, params: { query: { after, limit: 100 } } })).data!),
})

export const previewQuery = queryOptions({
  queryKey: ['retention', 'preview'], ...settings, refetchOnWindowFocus: false,
  queryFn: async ({ signal }) => (await api.GET('/api/v1/retention/preview', { signal })).data!,
})

/** Who the user is, as the frame of all pages has asked. */
export const sessionQuery = queryOptions({
  queryKey: ['session'],
  queryFn: async ({ signal }) => (await api.GET('/api/v1/session', { signal })).data!,
})
