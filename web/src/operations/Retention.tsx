import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'

import { Loaded } from '../components/Loaded'
import { State } from '../components/State'
import { Table } from '../components/Table'
import { Stamp } from '../components/Time'
import { bytes } from '../lib/bytes'
import { span } from '../lib/span'
import { Details } from './Details'
import { previewQuery, retentionQuery, type Schemas } from './queries'
import { Section } from './Section'

/** Retention shows what the server keeps, what it has removed, and what is due for removal. */
export function Retention() {
  const query = useQuery(retentionQuery)
  return (
    <>
      <h1 className="visually-hidden">Retention</h1>
      <Loaded query={query}>
        {(r) => (
          <>
            <Details
              values={{
                State: <State kind={r.removing ? 'running' : r.running ? 'success' : 'quiet'}>{r.removing ? `removes ${r.removing}` : r.running ? 'waits' : 'off: everything is kept'}</State>,
                'Next pass': r.next_look_at && <Stamp at={r.next_look_at} />,
                'From one pass to the next': span(r.policy.interval),
                Logs: age(r.policy.logs_max_age, 'after the end of the run'),
                Runs: [r.policy.runs_max_age && `${span(r.policy.runs_max_age)} after their creation`, r.policy.runs_keep && `at most ${r.policy.runs_keep} of each group`].filter(Boolean).join(', ') || 'kept',
                Events: [r.policy.events_max_age && span(r.policy.events_max_age), r.policy.events_keep && `at most ${r.policy.events_keep}`].filter(Boolean).join(', ') || 'kept',
                Workspaces: age(r.policy.workspace_max_age, 'after the end of the run'),
                Caches: [r.policy.cache_max_age && `${span(r.policy.cache_max_age)} after their last use`, r.policy.cache_total_bytes && `at most ${bytes(r.policy.cache_total_bytes)} together`].filter(Boolean).join(', ') || 'kept',
                'Removed per second': r.policy.per_second ? `at most ${r.policy.per_second}` : null,
              }}
            />
            <Section title="Removed" end={r.since && <span className="muted">since <Stamp at={r.since} /></span>}>
              <Table
                label="Removed" rows={r.removed} idOf={(sum) => sum.kind} empty="Nothing has been removed."
                columns={[
                  { title: 'Kind', cell: (sum) => sum.kind },
                  { title: 'Number', number: true, cell: (sum) => sum.count.toLocaleString('en') },
                  { title: 'Size', number: true, cell: (sum) => (sum.bytes === undefined ? (sum.count > 0 ? 'unknown' : null) : bytes(sum.bytes)) },
                ]}
              />
            </Section>
            <Preview />
          </>
        )}
      </Loaded>
    </>
  )
}

const age = (max: string | undefined, since: string) => (max ? `${span(max)} ${since}` : 'kept')

/** Preview asks what a pass would remove now, which takes the server a while: only on demand. */
function Preview() {
  const [wanted, setWanted] = useState(false)
  const query = useQuery({ ...previewQuery, enabled: wanted })
  return (
    <Section title="Due for removal" end={<button disabled={query.isFetching} onClick={() => (wanted ? void query.refetch() : setWanted(true))}>{query.isFetching ? 'Counting …' : 'Count now'}</button>}>
      {!wanted && <div className="empty">What a pass would remove now. Counting removes nothing.</div>}
      {wanted && (
        <Loaded query={query}>
          {(preview) => (
            <Table
              label="Due for removal" rows={preview.due.filter((d) => d.count > 0)} idOf={(d) => d.kind} empty="Nothing is due."
              columns={[
                { title: 'Kind', cell: (d) => <strong>{d.kind}</strong> },
                { title: 'Number', number: true, cell: (d) => d.count.toLocaleString('en') },
                { title: 'Size', number: true, cell: (d) => (d.bytes === undefined ? 'unknown' : bytes(d.bytes)) },
                { title: 'Oldest', cell: (d) => <Stamp at={d.oldest} /> },
                { title: 'First', cell: (d) => <First items={d.first} /> },
              ]}
            />
          )}
        </Loaded>
      )}
    </Section>
  )
}

function First({ items }: { items: readonly Schemas['RetentionItem'][] }) {
  return (
    <details>
      <summary>{items.length} oldest</summary>
      <ul>
        {items.map((i, n) => (
          <li key={n}>
            {i.run ? <Link className="mono" to="/runs/$id" params={{ id: i.run }}>{i.run}</Link> : (i.event ?? i.scope)} {i.task} {i.name} {i.bytes !== undefined && <span className="muted">{bytes(i.bytes)}</span>}
          </li>
        ))}
      </ul>
    </details>
  )
}
