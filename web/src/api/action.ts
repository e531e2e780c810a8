import { useMutation, useQueryClient, type QueryKey } from '@tanstack/react-query'
import { useCallback, useEffect, useRef, useState } from 'react'

import { apiUntil, type Api } from './client'
import { messageOf, ProblemError } from './problem'

/** How long an action waits before it says so. */
const slowMillis = 1_500

/** An Action changes something at the gateway. Until it has ended, its user either waits or withdraws it. */
export interface Action<I = void> {
  run: (input: I) => void
  /** The gateway has not answered yet. */
  waiting: boolean
  /** It has not answered for a while. */
  slow: boolean
  done: boolean
  error: unknown
  /** withdraw ends the calls that have no answer, and reports whether there were any. A call that the browser has not sent yet never reaches the gateway. */
  withdraw: () => boolean
  /** reset forgets how it ended. */
  reset: () => void
}

interface Options<I, O> {
  /** act makes the calls. Several calls look at the signal between them: with it, the user has withdrawn the action. */
  act: (api: Api, input: I, signal: AbortSignal) => Promise<O>
  /** The keys of the queries that the action changes. */
  changes: readonly QueryKey[]
  /** How long a call may take, in milliseconds, if a minute is too short for what it sends. */
  patience?: number
  onDone?: (result: O) => void
}

/** useAction is how everything is changed: `api` itself only reads. */
export function useAction<I = void, O = unknown>({ act, changes, patience, onDone }: Options<I, O>): Action<I> {
  const queries = useQueryClient()
  const calls = useRef<AbortController>(undefined)
  const { mutate, reset, isPending, isSuccess, error } = useMutation({
    mutationFn: async ({ input, abort }: { input: I; abort: AbortController }) => {
      try {
        return await act(apiUntil(abort.signal, patience), input, abort.signal)
      } finally {
        if (calls.current === abort) calls.current = undefined
      }
    },
    onSuccess: (result) => onDone?.(result),
    // The action has ended, also if this takes long.
    onSettled: () => {
      for (const queryKey of changes) void queries.invalidateQueries({ queryKey })
    },
  })
  const withdraw = useCallback(() => {
    const abort = calls.current
    calls.current = undefined
    abort?.abort(new Withdrawn('You did not wait for the answer.'))
    return abort !== undefined
  }, [])
  // A user who leaves the page does not wait any more.
  useEffect(() => () => void withdraw(), [withdraw])
  const run = useCallback((input: I) => {
    if (calls.current) return // the second click of two, before the button is disabled
    const abort = new AbortController()
    calls.current = abort
    mutate({ input, abort })
  }, [mutate])
  const forget = useCallback(() => {
    if (!calls.current) reset()
  }, [reset])
  return { run, waiting: isPending, slow: useSlow(isPending), done: isSuccess, error, withdraw, reset: forget }
}

function useSlow(waiting: boolean): boolean {
  const [slow, setSlow] = useState(false)
  useEffect(() => {
    if (!waiting) return
    const timer = window.setTimeout(() => setSlow(true), slowMillis)
    return () => {
      window.clearTimeout(timer)
      setSlow(false)
    }
  }, [waiting])
  return slow
}

class Withdrawn extends Error {}

/** isWithdrawn reports whether an action failed with this error because its user withdrew it. */
export const isWithdrawn = (error: unknown) => error instanceof Withdrawn

/**
 * isKnown reports whether the gateway itself has said that it did not do what failed with this error. It may have done it, and
 * failed later, if the error is its own.
 */
export const isKnown = (error: unknown) => error instanceof ProblemError && error.status < 500

/** outcomeOf says how an action failed, in a sentence or two. */
export const outcomeOf = (error: unknown) => (isKnown(error) ? messageOf(error) : `${messageOf(error)} It is not known whether it was done.`)
