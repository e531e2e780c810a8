import type { Query, QueryClient } from '@tanstack/react-query'

import { pauseAfter } from './pause'
import { isTemporary } from './problem'

/** How queries are repeated: until they succeed, or the gateway refuses them. Its address may be reached without a network. */
export const retries = {
  networkMode: 'always',
  retry: (_: number, error: unknown) => isTemporary(error),
  retryDelay: (before: number) => pauseAfter(before + 1),
} as const

/** The deletion of a run has no event: while the page is visible, what shows runs is read again from time to time. */
export const deletions = { refetchInterval: 60_000, refetchOnWindowFocus: 'always' } as const

/** retryNow repeats at once what has failed and is shown. */
export function retryNow(queries: QueryClient) {
  for (const query of queries.getQueryCache().findAll({ predicate: isShownAndFailed })) {
    void query.cancel({ silent: true }) // a pause cannot be cut short
    query.fetch().catch(() => undefined) // the page shows it
  }
}

const isShownAndFailed = (query: Query) => query.isActive() && (query.state.fetchFailureCount > 0 || query.state.status === 'error')
