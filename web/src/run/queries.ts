import { useMutation, useQueryClient } from '@tanstack/react-query'

/** useRunAct calls the gateway, and reads the run again. */
export function useRunAct<T>(id: string, call: (input: T) => Promise<unknown>, done?: () => void) {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: call,
    onSuccess: done,
    onSettled: () => Promise.all([queries.invalidateQueries({ queryKey: ['run', id] }), queries.invalidateQueries({ queryKey: ['runs'] })]),
  })
}
