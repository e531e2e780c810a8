import { createContext, useCallback, useContext } from 'react'

import { refusalOf, type Operation, type Session } from './permissions'

/** SessionContext has who the user is, on all pages but the login. */
export const SessionContext = createContext<Session>({ subject: '', scopes: [] })

export const useSession = () => useContext(SessionContext)

/** useRefusal returns the function that says what the user lacks for an operation: see refusalOf. */
export function useRefusal(): (operation: Operation, group?: string | readonly string[]) => string | undefined {
  const session = useSession()
  return useCallback((operation, group) => refusalOf(session, operation, group), [session])
}
