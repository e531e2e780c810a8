import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'

import { Act } from '../components/Act'
import { Choice, TextField } from '../components/Field'
import type { Schemas } from './queries'
import { overlaps } from './schedule'

/** ScheduleActions trigger, pause, resume and delete a schedule. */
export function ScheduleActions({ schedule: s, all }: { schedule: Schemas['Schedule']; all?: boolean }) {
  const navigate = useNavigate()
  const [note, setNote] = useState('')
  const [overlap, setOverlap] = useState<Schemas['Overlap'] | ''>('')
  const params = { path: { name: s.name } }
  const body = { note: note || undefined }
  const noteField = <TextField label="Note" hint="Shown with the schedule; without one, your name." maxLength={1000} value={note} onChange={setNote} />
  return (
    <>
      <Act
        label="Trigger" needs="triggerSchedule" group={s.group} title={`Trigger ${s.name}`} changes={['schedules']} onOpen={() => setOverlap('')}
        confirm={<p>A run of {s.run_name} is created now, also if the schedule is paused.</p>}
        act={(api) => api.POST('/api/v1/schedules/{name}/trigger', { params, body: overlap ? { overlap } : {} })}
      >
        <Choice
          label="If the run of the previous firing is open" value={overlap} onChange={setOverlap}
          options={[['', `as the schedule says: ${overlaps[s.overlap]}`], ...(Object.entries(overlaps) as [Schemas['Overlap'], string][])]}
        />
      </Act>
      <Act when={s.paused} label="Resume" needs="resumeSchedule" group={s.group} title={`Resume ${s.name}`} changes={['schedules']} onOpen={() => setNote('')} act={(api) => api.POST('/api/v1/schedules/{name}/resume', { params, body })}>{noteField}</Act>
      <Act when={!s.paused} label="Pause" needs="pauseSchedule" group={s.group} title={`Pause ${s.name}`} changes={['schedules']} onOpen={() => setNote('')} confirm={<p>It does not fire until you resume it. Its open runs continue.</p>} act={(api) => api.POST('/api/v1/schedules/{name}/pause', { params, body })}>{noteField}</Act>
      {all && (
        <Act
          label="Delete" needs="deleteSchedule" group={s.group} title={`Delete ${s.name}`} danger changes={['schedules']} confirm={<p>The schedule and its list of firings are deleted. Its runs continue and stay.</p>}
          act={(api) => api.DELETE('/api/v1/schedules/{name}', { params })} onDone={() => void navigate({ to: '/operations/schedules' })}
        />
      )}
    </>
  )
}
