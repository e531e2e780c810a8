import { MutationCache, QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'

import './app.css'
import { onSessionEnd, ProblemError } from './api/problem'
import { retries } from './api/retry'
import { base } from './lib/base'
import { applyTheme } from './lib/theme'
import { router } from './router'

applyTheme()

const queries: QueryClient = new QueryClient({
  // The roles of the user may have changed since the page was opened.
  mutationCache: new MutationCache({
    onError: (error) => {
      if (error instanceof ProblemError && error.status === 403) void queries.invalidateQueries({ queryKey: ['session'] })
    },
  }),
  defaultOptions: {
    queries: {
      // Events mark what changed; little is polled.
      staleTime: Infinity,
      refetchOnWindowFocus: false,
      ...retries,
    },
    mutations: { networkMode: retries.networkMode },
  },
})

// When a session has ended, Frame asks for a login, and then shows the same page again. A login that is refused ends none.
onSessionEnd(() => {
  if (queries.getQueryData(['session']) !== undefined && queries.isFetching({ queryKey: ['session'] }) === 0) void queries.invalidateQueries({ queryKey: ['session'] })
})

const { pathname, search, hash } = window.location

// The gateway also answers without its base path, but only below it has the browser the cookie of its session.
if (!pathname.startsWith(`${base}/`)) window.location.replace(base + pathname + search + hash)
else {
  createRoot(document.getElementById('root')!).render(
    <StrictMode>
      <QueryClientProvider client={queries}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </StrictMode>,
  )
}
