import { keepPreviousData, queryOptions, skipToken } from '@tanstack/react-query'

import { api } from '../api/client'
import { readOn } from '../api/list'
import { ProblemError } from '../api/problem'
import { idOf, maxShown, nameBefore } from './entries'

/** What is found is read while the dialog is open only, and once for a text. */
export const once = { staleTime: 10_000, gcTime: 10_000, refetchOnWindowFocus: false, refetchInterval: false } as const

/** The newest runs, whose names are found in part. */
export const newestQuery = queryOptions({
  queryKey: ['find', 'newest'], ...once,
  queryFn: async ({ signal }) => (await api.GET('/api/v1/runs', { signal, params: { query: { limit: 100 } } })).data!.runs,
})

/** The newest runs of a name, of any age. */
export const namedQuery = (name: string) => queryOptions({
  queryKey: ['find', 'named', name], ...once, placeholderData: keepPreviousData,
  queryFn: name === '' ? skipToken : async ({ signal }) =>
    (await readOn('runs', undefined, async (cursor) => (await api.GET('/api/v1/runs', { signal, params: { query: { name: [name], cursor, limit: 5 } } })).data!)).runs,
})

/** The run with an id, null if there is none that the user may see. */
export const runQuery = (text: string) => {
  const id = idOf(text)
  return queryOptions({
    queryKey: ['find', 'run', id], ...once,
    queryFn: id === undefined ? skipToken : async ({ signal }) => {
      try {
        return (await api.GET('/api/v1/runs/{id}', { signal, params: { path: { id } } })).data!
      } catch (e) {
        if (e instanceof ProblemError && [403, 404, 410].includes(e.status)) return null
        throw e
      }
    },
  })
}

/**
 * Schedules and change groups are too many to be read as a whole, so those are found whose names begin with a text. Lists are
 * in the order of bytes, and begin after a name.
 */
const startingWith = (text: string) => ({ after: nameBefore(text), limit: maxShown })

export const schedulesQuery = (text: string) => queryOptions({
  queryKey: ['find', 'schedules', text], ...once, placeholderData: keepPreviousData,
  queryFn: text === '' ? skipToken : async ({ signal }) => (await api.GET('/api/v1/schedules', { signal, params: { query: startingWith(text) } })).data!.schedules,
})
export const changeGroupsQuery = (text: string) => queryOptions({
  queryKey: ['find', 'changegroups', text], ...once, placeholderData: keepPreviousData,
  queryFn: text === '' ? skipToken : async ({ signal }) => (await api.GET('/api/v1/changegroups', { signal, params: { query: startingWith(text) } })).data!.changegroups,
})
