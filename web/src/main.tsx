import { QueryCache, QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'

import './app.css'
import { ProblemError } from './api/client'
import { applyTheme } from './lib/theme'
import { router } from './router'

applyTheme()

const queries: QueryClient = new QueryClient({
  // A session that has ended shows the login, and then the same page again.
  queryCache: new QueryCache({
    onError: (error, query) => {
      if (error instanceof ProblemError && error.status === 401 && query.queryKey[0] !== 'session') void queries.resetQueries({ queryKey: ['session'] })
    },
  }),
  defaultOptions: {
    queries: {
      // Events mark what changed; nothing is polled.
      staleTime: Infinity,
      refetchOnWindowFocus: false,
      retry: (_, error) => !(error instanceof ProblemError) || error.status >= 500,
      retryDelay: (attempt) => Math.min(15_000, 500 * 2 ** attempt),
    },
  },
})

createRoot(document.getElementById('root')!).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <RouterProvider router={router} />
    </QueryClientProvider>
  </StrictMode>,
)
