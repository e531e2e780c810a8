import { useQuery } from '@tanstack/react-query'
import { useId, useState } from 'react'

import { api } from '../api/client'
import { listOf, refusalOf, submitPaths } from '../lib/permissions'
import { useSession } from '../lib/session'

/** useGroups returns groups in which the user may submit runs: those of the bindings, and those that have runs. */
export function useGroups(): readonly string[] {
  const session = useSession()
  const listed = useQuery({
    queryKey: ['groups', 'to submit in'],
    queryFn: async ({ signal }) => (await api.GET('/api/v1/groups', { signal, params: { query: { limit: 100 } } })).data!.groups.map((g) => g.path),
  })
  const own = submitPaths(session).filter((path) => path !== '')
  return [...new Set([...own, ...(listed.data ?? []).filter((path) => refusalOf(session, 'createRun', path) === undefined)])]
}

/** GroupField changes the group in a run file, and says in which groups the user may submit runs. */
export function GroupField({ group, groups, onChange }: { group?: string; groups: readonly string[]; onChange: (group: string) => void }) {
  const session = useSession()
  const id = useId()
  // While the user types, the file follows.
  const [typed, setTyped] = useState<string>()
  const paths = submitPaths(session)
  return (
    <div className="group">
      <label htmlFor={id}>Group</label>
      <input id={id} className="mono" list={`${id}-groups`} aria-describedby={`${id}-about`} value={typed ?? group ?? ''} spellCheck={false} autoComplete="off"
        onChange={(e) => { setTyped(e.target.value); onChange(e.target.value) }} onBlur={() => setTyped(undefined)} />
      <datalist id={`${id}-groups`}>{groups.map((path) => <option key={path} value={path} />)}</datalist>
      <p id={`${id}-about`} className="muted">You may submit runs in {paths.includes('') ? 'all groups' : `${listOf(paths)}, and below`}.</p>
    </div>
  )
}
