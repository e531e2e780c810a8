import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'

import { Act } from '../components/Act'
import { NumberField, TextField } from '../components/Field'
import { counted } from '../lib/counted'
import type { Schemas } from './queries'

/** FleetActions pause, resume, scale, drain and delete a fleet. */
export function FleetActions({ fleet: f, all }: { fleet: Schemas['Fleet']; all?: boolean }) {
  const navigate = useNavigate()
  const [reason, setReason] = useState('')
  const [instances, setInstances] = useState('0')
  const params = { path: { name: f.name } }
  const body = { reason: reason || undefined }
  const common = { changes: ['fleets'], onOpen: () => setReason(''), group: f.spec.allowed_groups }
  const field = <TextField label="Reason" hint="Shown with the fleet and in its events." maxLength={500} value={reason} onChange={setReason} />
  if (f.mode === 'deleting') return null
  return (
    <>
      <Act {...common} when={f.mode === 'active'} label="Pause" needs="pauseFleet" title={`Pause ${f.name}`} confirm={<p>No instance is created or deleted until you resume the fleet. Its instances continue with tasks.</p>}
        act={(api) => api.POST('/api/v1/fleets/{name}/pause', { params, body })}>{field}</Act>
      <Act {...common} when={f.mode === 'paused' || f.mode === 'draining' || f.desired !== undefined} label="Resume" needs="resumeFleet" title={`Resume ${f.name}`} confirm={<p>The scaling policy decides again: this ends {f.mode === 'active' ? `the scaling to ${counted(f.desired ?? 0, 'instance')}` : f.mode === 'paused' ? 'the pause' : 'the drain'}.</p>}
        act={(api) => api.POST('/api/v1/fleets/{name}/resume', { params, body })}>{field}</Act>
      {all && (
        <Act label="Scale" needs="scaleFleet" group={f.spec.allowed_groups} title={`Scale ${f.name}`} changes={['fleets']}
          onOpen={() => {
            setReason('')
            setInstances(String(f.desired ?? f.status.instances ?? 0))
          }}
          confirm={<p>The number overrides the scaling policy until you resume the fleet. Instances with tasks are deleted only after their tasks have ended.</p>}
          act={(api) => api.POST('/api/v1/fleets/{name}/scale', { params, body: { ...body, instances: Number(instances) } })}>
          <NumberField label="Instances" hint={f.spec.max_instances ? `At most ${f.spec.max_instances}.` : undefined} max={f.spec.max_instances || 100_000} value={instances} onChange={setInstances} />
          {field}
        </Act>
      )}
      <Act {...common} when={f.mode !== 'draining'} label="Drain" needs="drainFleet" title={`Drain ${f.name}`} danger
        confirm={<p>The instances take no more tasks, and each is deleted when its tasks have ended. No instance is created until you resume the fleet.</p>}
        act={(api) => api.POST('/api/v1/fleets/{name}/drain', { params, body })}>{field}</Act>
      {all && (
        <Act label="Delete" needs="deleteFleet" title={`Delete ${f.name}`} danger changes={['fleets']}
          confirm={<p>The instances are drained and deleted, and then the fleet is deleted. {count(f) > 0 && `It has ${counted(count(f), 'instance')} now.`}</p>}
          act={(api) => api.DELETE('/api/v1/fleets/{name}', { params })} onDone={() => void navigate({ to: '/operations/fleets' })} />
      )}
    </>
  )
}

/** count is the number of instances that are not gone. */
export function count(fleet: Schemas['Fleet']): number {
  return Object.values(fleet.counts).reduce((sum, n) => sum + n, 0)
}
