import { useDeferredValue, useMemo, useRef, useState, type KeyboardEvent, type RefObject } from 'react'

import { countTasks, statusLabels, statusOrder, statusSigns } from '../../lib/status'
import type { GraphNode, Tasks } from './graph'
import type { GraphStore } from './graphStore'
import type { GraphHandle } from './GraphView'

interface Props {
  tasks: Tasks
  store: GraphStore
  view: RefObject<GraphHandle | null>
  input: RefObject<HTMLInputElement | null>
  grouped: boolean
  open: number
  onCloseAll: () => void
  onKeys: () => void
}

/** GraphBar counts the tasks, leads to those of a status or a name, and zooms. */
export function GraphBar({ tasks, store, view, input, grouped, open, onCloseAll, onKeys }: Props) {
  const later = useDeferredValue(tasks)
  const counts = useMemo(() => countTasks(Object.values(later)), [later])
  const last = useRef<{ search: string; node: number }>({ search: '', node: -1 })
  const [missing, setMissing] = useState(false)

  /** next shows the next node that fits, after the one shown before. */
  const next = (search: string, fits: (node: GraphNode, index: number) => boolean) => {
    const { nodes } = store.graph
    const begin = last.current.search === search ? last.current.node + 1 : 0
    for (let i = 0; i < nodes.length; i++) {
      const at = (begin + i) % nodes.length
      if (!fits(nodes[at]!, at)) continue
      last.current = { search, node: at }
      view.current?.show(at)
      return true
    }
    return false
  }
  const find = (event: KeyboardEvent<HTMLInputElement>) => {
    if (event.key === 'Escape') {
      event.preventDefault()
      event.currentTarget.value = ''
      setMissing(false)
      view.current?.focus()
      return
    }
    const text = event.currentTarget.value.trim().toLowerCase()
    if (event.key !== 'Enter' || !text) return
    setMissing(!next(`name ${text}`, (node) => node.label.toLowerCase().includes(text) || node.tasks.some((name) => name.toLowerCase().includes(text))))
  }
  return (
    <div className="graph-bar" role="group" aria-label="Graph">
      <div className="graph-counts">
        {statusOrder.filter((s) => counts[s]).map((s) => (
          <button key={s} data-kind={s} title={`Show the next task: ${statusLabels[s]}`} onClick={() => next(s, (_, node) => (store.state(node).counts[s] ?? 0) > 0)}>
            <i aria-hidden="true">{statusSigns[s]}</i>{counts[s]!.toLocaleString()} {statusLabels[s]}
          </button>
        ))}
      </div>
      {grouped && <span className="muted">{open === 0 ? 'Large run: open a layer to see its tasks' : <button onClick={onCloseAll}>Close {open === 1 ? 'the layer' : `${open} layers`}</button>}</span>}
      <div className="graph-tools">
        <input ref={input} type="search" placeholder="find a task" aria-label="Find a task" aria-keyshortcuts="f" aria-invalid={missing} onKeyDown={find} onInput={() => setMissing(false)} />
        {missing && <span role="status" className="muted">no such task</span>}
        <button aria-label="Zoom out" title="Zoom out (Ctrl and scroll)" onClick={() => view.current?.zoomBy(1 / 1.4)}>−</button>
        <button aria-label="Zoom in" title="Zoom in (Ctrl and scroll)" onClick={() => view.current?.zoomBy(1.4)}>+</button>
        <button onClick={() => view.current?.fit()}>Fit</button>
        <button onClick={onKeys} aria-keyshortcuts="?">Keys</button>
      </div>
    </div>
  )
}
