import { keepPreviousData, queryOptions, skipToken } from '@tanstack/react-query'

import { api } from '../api/client'
import { ProblemError } from '../api/problem'
import { idOf } from './entries'

/** What is found is read while the dialog is open only, and once for a text. */
const once = { staleTime: 10_000, refetchOnWindowFocus: false } as const

/** The newest runs, whose names are found in part. */
export const newestQuery = queryOptions({
  queryKey: ['find', 'newest'], ...once,
  queryFn: async ({ signal }) => (await api.GET('/api/v1/runs', { signal, params: { query: { limit: 100 } } })).data!.runs,
})

/** The newest runs of a name, of any age. */
export const namedQuery = (name: string) => queryOptions({
  queryKey: ['find', 'named', name], ...once, placeholderData: keepPreviousData,
  queryFn: name === '' ? skipToken : async ({ signal }) => (await api.GET('/api/v1/runs', { signal, params: { query: { name: [name], limit: 5 } } })).data!.runs,
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
 * Schedules and change groups are too many to be read as a whole, so those are found whose names begin with a text, as far
 * as they are among the next hundred. A list begins after a name: after the text without its last character are the text
 * itself and what follows, and after the text is what begins with it, however many names are before.
 */
const starts = (text: string) => [text.slice(0, -1) || undefined, text].map((after) => ({ after, limit: 100 }))

export const schedulesQuery = (text: string) => queryOptions({
  queryKey: ['find', 'schedules', text], ...once, placeholderData: keepPreviousData,
  queryFn: text === '' ? skipToken : async ({ signal }) => {
    const pages = await Promise.all(starts(text).map((query) => api.GET('/api/v1/schedules', { signal, params: { query } })))
    return pages.flatMap((p) => p.data!.schedules)
  },
})
export const changeGroupsQuery = (text: string) => queryOptions({
  queryKey: ['find', 'changegroups', text], ...once, placeholderData: keepPreviousData,
  queryFn: text === '' ? skipToken : async ({ signal }) => {
    const pages = await Promise.all(starts(text).map((query) => api.GET('/api/v1/changegroups', { signal, params: { query } })))
    return pages.flatMap((p) => p.data!.changegroups)
  },
})
