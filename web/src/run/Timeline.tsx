import { Link } from '@tanstack/react-router'
import { useVirtualizer } from '@tanstack/react-virtual'
import { useMemo, useRef } from 'react'

import { duration, useNow } from '../lib/time'
import { useRun } from '../pages/Run'

/** TimelineTab draws when tasks were queued and ran, on one scale. */
export function TimelineTab() {
  const run = useRun().data
  const now = useNow()
  const tasks = useMemo(
    () => Object.entries(run?.tasks ?? {}).filter(([, t]) => t.queued_at).sort(([, a], [, b]) => Date.parse(a.queued_at!) - Date.parse(b.queued_at!) || a.number - b.number),
    [run?.tasks],
  )
  const scroller = useRef<HTMLDivElement>(null)
  const rows = useVirtualizer({ count: tasks.length, getScrollElement: () => scroller.current, estimateSize: () => 26, overscan: 20 })
  if (!run?.started_at) return <div className="empty">The run has not started.</div>
  const start = Date.parse(run.started_at)
  const end = run.ended_at ? Date.parse(run.ended_at) : now
  const share = (time: number) => Math.min(100, Math.max(0, (100 * (time - start)) / Math.max(1, end - start)))
  return (
    <>
      <p className="muted">0 to {duration(end - start)}; hatched: queued</p>
      <div className="rows timeline" ref={scroller} tabIndex={0}>
        <div ref={(e) => { e?.style.setProperty('height', `${rows.getTotalSize()}px`); e?.style.setProperty('position', 'relative') }}>
          {rows.getVirtualItems().map((item) => {
            const [name, task] = tasks[item.index]!
            const queued = Date.parse(task.queued_at!)
            const begun = task.started_at ? Date.parse(task.started_at) : undefined
            const over = task.ended_at ? Date.parse(task.ended_at) : end
            const part = (from: number, to: number) => (e: HTMLElement | null) => {
              e?.style.setProperty('left', `${share(from)}%`)
              e?.style.setProperty('width', `${share(to) - share(from)}%`)
            }
            return (
              <div key={name} className="lane" ref={(e) => { e?.style.setProperty('transform', `translateY(${item.start}px)`); e?.style.setProperty('position', 'absolute'); e?.style.setProperty('width', '100%') }}>
                <Link to="/runs/$id/tasks/$task" params={{ id: run.id, task: name }} title={name}>{name}</Link>
                <div className="track" data-kind={task.status}>
                  <i className="queue" ref={part(queued, begun ?? over)} />
                  {begun !== undefined && <i ref={part(begun, over)} title={`${name}: ${duration(over - begun)}`} />}
                </div>
              </div>
            )
          })}
        </div>
      </div>
    </>
  )
}
