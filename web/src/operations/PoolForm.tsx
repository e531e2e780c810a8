import { useState } from 'react'

import { Act } from '../components/Act'
import { Check, Choice, NumberField, TextField } from '../components/Field'
import { draftOf, specOf } from './pool'
import type { Schemas } from './queries'

/** PoolForm is a dialog that changes a pool. */
export function PoolForm({ pool }: { pool: Schemas['Pool'] }) {
  const [draft, setDraft] = useState(() => draftOf(pool))
  const set = (change: Partial<typeof draft>) => setDraft((old) => ({ ...old, ...change }))
  return (
    <Act
      label="Edit" needs="putPool" submit="Save" title={`Edit the pool ${pool.name}`} changes={['pools']} onOpen={() => setDraft(draftOf(pool))}
      act={(api) => api.PUT('/api/v1/pools/{name}', { params: { path: { name: pool.name } }, body: specOf(pool, draft) })}
    >
      <NumberField label="Running tasks at most" hint="On all executors of the pool together; 0 is no limit. A lower limit stops no task." max={1_000_000} value={draft.maxRunning} onChange={(maxRunning) => set({ maxRunning })} />
      <TextField label="Labels" hint="One a line, such as zone=a. All executors of the pool count as having them." lines value={draft.labels} onChange={(labels) => set({ labels })} />
      <TextField label="Memory of a slot" hint="Such as 8Gi; empty for none." value={draft.memory} onChange={(memory) => set({ memory })} />
      <Choice label="Exec sessions in tasks" value={draft.exec} options={[['allowed', 'allowed'], ['forbidden', 'forbidden']]} onChange={(exec) => set({ exec })} />
      <Check label="Default pool" hint="Tasks without a pool use it. It replaces the present default pool of its kind." checked={draft.default} onChange={(value) => set({ default: value })} />
      <Check label="Privileged tasks are allowed" checked={draft.privileged} onChange={(privileged) => set({ privileged })} />
      {pool.driver !== 'shell' && (
        <Check label="Shared by runs that do not trust each other" hint="Images are pulled with the credentials of each run." checked={draft.shared} onChange={(shared) => set({ shared })} />
      )}
    </Act>
  )
}
