import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'

import './app.css'
import { ProblemError } from './api/client'
import { router } from './router'

const queries = new QueryClient({
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
