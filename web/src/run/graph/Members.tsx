import { useVirtualizer } from '@tanstack/react-virtual'
import { useEffect, useMemo, useRef, useState } from 'react'

import { Meter } from '../../components/Status'
import { countTasks, kindOf, statusLabels, statusOrder, statusSigns, type Kind } from '../../lib/status'
import type { GraphNode, Tasks } from './graph'
import { Took } from '../TaskTable'

interface Props {
  node: GraphNode
  tasks: Tasks
  hrefOf: (task: string) => string
  onTask: (task: string) => void
  onClose: () => void
}

const rowHeight = 48

/** Members lists the tasks of a matrix or foreach, with links to their logs. */
export function Members({ node, tasks, hrefOf, onTask, onClose }: Props) {
  const [status, setStatus] = useState<Kind | ''>('')
  const counts = useMemo(() => countTasks(node.tasks.flatMap((name) => tasks[name] ?? [])), [node, tasks])
  const names = useMemo(() => (status ? node.tasks.filter((name) => tasks[name] && kindOf(tasks[name]) === status) : node.tasks), [node, tasks, status])
  const scroller = useRef<HTMLDivElement>(null)
  const panel = useRef<HTMLElement>(null)
  const rows = useVirtualizer({ count: names.length, getScrollElement: () => scroller.current, estimateSize: () => rowHeight, overscan: 8 })
  useEffect(() => panel.current?.focus(), [])
  return (
    <aside className="members" ref={panel} role="dialog" aria-label={`Tasks of ${node.label}`} tabIndex={-1}
      onKeyDown={(e) => {
        if (e.key !== 'Escape') return
        e.stopPropagation()
        onClose()
      }}>
      <header>
        <h2>{node.label} <span className="muted">{node.tasks.length.toLocaleString()} tasks</span></h2>
        <button aria-label="Close" onClick={onClose}>✕</button>
      </header>
      <div className="members-filter">
        <Meter counts={counts} />
        <select aria-label="Status" value={status} onChange={(e) => setStatus(e.target.value as Kind | '')}>
          <option value="">all statuses</option>
          {statusOrder.filter((s) => counts[s] || s === status).map((s) => <option key={s} value={s}>{counts[s] ?? 0} {statusLabels[s]}</option>)}
        </select>
      </div>
      <div className="members-rows" ref={scroller}>
        <ul style={{ height: rows.getTotalSize() }}>
          {rows.getVirtualItems().map((item) => {
            const name = names[item.index]!
            const task = tasks[name]
            if (!task) return null
            return (
              <li key={name} style={{ transform: `translateY(${item.start}px)`, height: rowHeight }} aria-setsize={names.length} aria-posinset={item.index + 1}>
                <a href={hrefOf(name)} data-kind={kindOf(task)} onClick={(e) => {
                  if (e.ctrlKey || e.metaKey || e.shiftKey) return
                  e.preventDefault()
                  onTask(name)
                }}>
                  <i aria-hidden="true">{statusSigns[kindOf(task)]}</i>
                  <b title={name}>{name.startsWith(`${node.id}[`) ? name.slice(node.id.length + 1, -1) : name}</b>
                  <span className="members-facts">
                    <em>{statusLabels[kindOf(task)]}</em>
                    {task.attempt > 1 && <span>attempt {task.attempt}</span>}
                    <span><Took task={task} /></span>
                    {task.reason && <span className="members-reason" title={task.reason}>{task.reason}</span>}
                  </span>
                </a>
              </li>
            )
          })}
        </ul>
      </div>
    </aside>
  )
}
