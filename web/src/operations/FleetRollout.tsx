import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'

import { Act } from '../components/Act'
import { TextField } from '../components/Field'
import { Loaded } from '../components/Loaded'
import { State } from '../components/State'
import { Table } from '../components/Table'
import { Time } from '../components/Time'
import { counted } from '../lib/counted'
import { Details } from './Details'
import { rolloutQuery, type Schemas } from './queries'
import { Section } from './Section'

const kinds = { complete: 'success', progressing: 'running', paused: 'waiting_approval', failed: 'failed' } as const

/** FleetRollout shows how far the current revision has replaced earlier ones, and the last revisions. */
export function FleetRollout({ name, groups }: { name: string; groups?: readonly string[] }) {
  const query = useQuery(rolloutQuery(name))
  const [reason, setReason] = useState('')
  const field = <TextField label="Reason" maxLength={500} value={reason} onChange={setReason} />
  const params = { path: { name } }
  const body = { reason: reason || undefined }
  const common = { changes: ['fleets'], onOpen: () => setReason(''), group: groups }
  const phase = query.data?.phase
  return (
    <Section
      title="Rollout"
      end={
        <>
          <Act {...common} when={phase === 'progressing'} label="Pause" needs="pauseFleetRollout" title={`Pause the rollout of ${name}`} confirm={<p>Instances of earlier revisions are not replaced until you resume the rollout. New instances have the current revision.</p>}
            act={(api) => api.POST('/api/v1/fleets/{name}/rollout/pause', { params, body })}>{field}</Act>
          <Act {...common} when={phase === 'paused' || phase === 'failed'} label="Resume" needs="resumeFleetRollout" title={`Resume the rollout of ${name}`} confirm={<p>The rollout replaces instances of earlier revisions again.</p>}
            act={(api) => api.POST('/api/v1/fleets/{name}/rollout/resume', { params, body })}>{field}</Act>
        </>
      }
    >
      <Loaded query={query}>
        {(rollout) => (
          <>
            <Details
              values={{
                State: <><State kind={kinds[rollout.phase]}>{rollout.phase}</State>{rollout.message && <span className="reason">{rollout.message}</span>}</>,
                Revision: rollout.observed_revision === rollout.revision ? String(rollout.revision) : `${rollout.revision}, not yet observed by the fleet worker`,
                Updated: `${counted(rollout.updated, 'instance')}, ${rollout.ready} of them ready`,
                'Of earlier revisions': String(rollout.outdated),
              }}
            />
            <Table
              label="Revisions" rows={rollout.revisions} idOf={(r) => String(r.number)} empty="There is no revision yet."
              columns={[
                { title: 'Revision', cell: (r) => <><strong>{r.number}</strong>{r.number === rollout.revision && <span className="muted"> current</span>}</> },
                { title: 'Instances', number: true, cell: (r) => r.instances },
                { title: 'Created', cell: (r) => <><Time at={r.created_at} />{r.by && <span className="reason">by {r.by}</span>}</> },
                { title: 'Settings', cell: (r) => <details><summary>{(r.settings as { plugin?: string }).plugin ?? 'Settings'}</summary><pre className="code" tabIndex={0}>{JSON.stringify(r.settings, null, 2)}</pre></details> },
                { title: 'Actions', cell: (r) => r.number !== rollout.revision && <span className="actions"><Undo name={name} groups={groups} revision={r} /></span> },
              ]}
            />
          </>
        )}
      </Loaded>
    </Section>
  )
}

function Undo({ name, groups, revision }: { name: string; groups?: readonly string[]; revision: Schemas['FleetRevision'] }) {
  const [reason, setReason] = useState('')
  return (
    <Act
      label="Go back" needs="undoFleetRollout" group={groups} title={`Go back to revision ${revision.number} of ${name}`} changes={['fleets']} onOpen={() => setReason('')}
      confirm={<p>The settings of revision {revision.number} become a new revision, and a rollout replaces the instances of the others. Its own instances stay.</p>}
      act={(api) => api.POST('/api/v1/fleets/{name}/rollout/undo', { params: { path: { name } }, body: { to_revision: revision.number, reason: reason || undefined } })}
    >
      <TextField label="Reason" maxLength={500} value={reason} onChange={setReason} />
    </Act>
  )
}
