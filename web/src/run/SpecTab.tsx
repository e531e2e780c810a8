import { useQuery } from '@tanstack/react-query'
import { useVirtualizer } from '@tanstack/react-virtual'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useEffect, useMemo, useRef, useState } from 'react'
import { stringify } from 'yaml'

import { api } from '../api/client'
import { Lines } from '../components/Lines'
import { Failed } from '../components/Loaded'
import { diffOf, fold, type DiffLine } from '../lib/diff'
import { useRun } from '../pages/Run'

const route = getRouteApi('/runs/$id/spec')

/** How the specification is shown, as the URL has it. */
export type SpecView = 'yaml' | 'json' | 'diff'

function useSpec(id: string | undefined) {
  return useQuery({
    queryKey: ['spec', id], // it never changes
    enabled: id !== undefined,
    queryFn: async ({ signal }) => (await api.GET('/api/v1/runs/{id}/spec', { signal, params: { path: { id: id! } } })).data!,
  })
}

const yamlOf = (spec: unknown) => stringify(spec, { lineWidth: 0, aliasDuplicateObjects: false })

/** SpecTab shows the specification, and what a restart changed. */
export function SpecTab() {
  const run = useRun().data
  const { view = 'yaml' } = route.useSearch()
  const navigate = route.useNavigate()
  const spec = useSpec(run?.id)
  const before = useSpec(view === 'diff' ? run?.restarted_from : undefined)
  const text = useMemo(() => (spec.data ? (view === 'json' ? JSON.stringify(spec.data, null, 2) : yamlOf(spec.data)) : ''), [spec.data, view])
  if (!run) return null
  const views: { view: SpecView; label: string }[] = [{ view: 'yaml', label: 'YAML' }, { view: 'json', label: 'JSON' }]
  if (run.restarted_from) views.push({ view: 'diff', label: 'Difference to the restarted run' })
  return (
    <>
      <div className="filters">
        <div role="group" aria-label="View" className="segments">
          {views.map((v) => <button key={v.view} aria-pressed={view === v.view} onClick={() => void navigate({ search: { view: v.view === 'yaml' ? undefined : v.view }, replace: true })}>{v.label}</button>)}
        </div>
        {spec.data && view !== 'diff' && <SaveAs text={text} name={`${run.name}.${view}`} />}
        <span className="muted">Short forms are written out, secrets are hidden, and comments and the order of the tasks are not kept.</span>
      </div>
      <Failed query={spec} />
      {view === 'diff' && run.restarted_from
        ? <>
            <Failed query={before} />
            <p className="muted">From <Link className="mono" to="/runs/$id" params={{ id: run.restarted_from }}>{run.restarted_from}</Link> to this run.</p>
            {spec.data && before.data ? <Diff before={yamlOf(before.data)} after={text} /> : !spec.failureReason && !before.failureReason && <p className="muted">Reading both specifications …</p>}
          </>
        : spec.data ? <Lines label={`Specification of ${run.name}`} text={text} /> : !spec.failureReason && <p className="muted">Reading the specification …</p>}
    </>
  )
}

/** SaveAs saves a text that the page has as a file. */
function SaveAs({ text, name }: { text: string; name: string }) {
  const [url, setUrl] = useState<string>()
  useEffect(() => {
    // The type is that of no document, so that a browser never opens it as one.
    const made = URL.createObjectURL(new Blob([text], { type: 'application/octet-stream' }))
    setUrl(made)
    return () => URL.revokeObjectURL(made)
  }, [text])
  return <a className="button" href={url} download={name}>Download</a>
}

function Diff({ before, after }: { before: string; after: string }) {
  const all = useMemo(() => diffOf(before, after), [before, after])
  const [open, setOpen] = useState<ReadonlySet<DiffLine>>(new Set())
  const folded = useMemo(() => fold(all ?? []), [all])
  const lines = useMemo(() => folded.flatMap((l) => (l.kind === 'fold' && open.has(l) ? l.lines : [l])), [folded, open])
  const scroller = useRef<HTMLDivElement>(null)
  const view = useVirtualizer({ count: lines.length, getScrollElement: () => scroller.current, estimateSize: () => 20, overscan: 30 })
  if (!all) return <div className="empty">The specifications have too little in common to compare them.</div>
  if (all.every((l) => l.kind === ' ')) return <div className="empty">The specifications are equal.</div>
  return (
    <div className="code" ref={scroller} tabIndex={0} role="region" aria-label="Difference of the specifications">
      <div className="all" style={{ height: view.getTotalSize() }}>
        {view.getVirtualItems().map((item) => {
          const line = lines[item.index]!
          const at = { transform: `translateY(${item.start}px)` }
          if (line.kind === 'fold') {
            return <div key={item.key} className="line fold" style={at}><button onClick={() => setOpen((old) => new Set(old).add(line))}>show {line.lines.length} equal lines</button></div>
          }
          return (
            <div key={item.key} className="line" data-change={line.kind} style={at}>
              <span className="n" style={{ width: '6ch' }} aria-hidden="true">{line.before}</span>
              <span className="n" style={{ width: '6ch' }} aria-hidden="true">{line.after}</span>
              <span className="sign">{line.kind === ' ' ? '' : line.kind}<span className="visually-hidden">{line.kind === '+' ? ' added ' : line.kind === '-' ? ' removed ' : ''}</span></span>
              <span>{line.text}</span>
            </div>
          )
        })}
      </div>
    </div>
  )
}
