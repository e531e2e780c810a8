import { useAction, type Action } from '../api/action'
import type { Api } from '../api/client'

/** useRunAct changes a run, and reads it again. */
export function useRunAct<I = void, O = unknown>(id: string, act: (api: Api, input: I, signal: AbortSignal) => Promise<O>, onDone?: (result: O) => void): Action<I> {
  return useAction({ act, changes: [['run', id], ['runs']], onDone })
}
