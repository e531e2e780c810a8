import { useNavigate, useRouter } from '@tanstack/react-router'
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState, type KeyboardEvent } from 'react'

import type { Status } from '../api/client'
import { statusLabels, statusOrder, statusSigns, countTasks } from '../lib/status'
import { useRun } from '../pages/Run'
import { foldTasks, groupLayers, layerOf, type GraphNode, type RunGraph, type Tasks } from './graph'
import { GraphStore } from './graphStore'
import { GraphView, type GraphHandle } from './GraphView'
import type { Placement } from './layout'
import type { LayoutReply, LayoutRequest } from './layout.worker'
import { Members } from './Members'
import './graph.css'

const none: Tasks = {}

/** GraphTab shows the graph of the run: what ran, what runs, and what waits for what. */
export function GraphTab() {
  const run = useRun().data
  if (!run) return null
  const tasks = run.tasks ?? none
  if (Object.keys(tasks).length === 0) return <div className="empty">The run has no tasks.</div>
  return <Graph key={run.id} run={run.id} tasks={tasks} />
}

function Graph({ run, tasks }: { run: string; tasks: Tasks }) {
  const navigate = useNavigate()
  const router = useRouter()
  const folded = useFolded(tasks)
  const [open, setOpen] = useState<ReadonlySet<string>>(() => new Set())
  const graph = useMemo(() => groupLayers(folded, open), [folded, open])
  const laid = useLayout(graph)
  const store = useStore(laid?.graph, tasks)
  const [members, setMembers] = useState<string>()
  const view = useRef<GraphHandle>(null)

  // The node that gets the focus when the graph with it is laid out.
  const next = useRef<string>(undefined)
  useEffect(() => {
    const node = next.current === undefined ? undefined : laid?.graph.index.get(next.current)
    if (node === undefined) return
    next.current = undefined
    view.current?.show(node)
  }, [laid])

  const hrefOf = useMemo(() => {
    const base = router.buildLocation({ to: '/runs/$id/tasks', params: { id: run } }).href
    return (task: string) => `${base}/${encodeURIComponent(task)}`
  }, [router, run])
  const onTask = useCallback((task: string) => void navigate({ to: '/runs/$id/tasks/$task', params: { id: run, task } }), [navigate, run])
  const onOpen = useCallback((node: GraphNode) => {
    if (node.kind === 'task') onTask(node.tasks[0]!)
    else if (node.kind === 'expansion') setMembers(node.id)
    else {
      next.current = folded.nodes.find((n) => layerOf(folded, n) === node.id)?.id
      setOpen((layers) => new Set(layers).add(node.id))
    }
  }, [onTask, folded])
  const onClose = useCallback((node: GraphNode) => {
    const layer = layerOf(folded, node)
    if (!open.has(layer)) return
    next.current = layer
    setOpen((layers) => new Set([...layers].filter((l) => l !== layer)))
  }, [folded, open])

  const node = members === undefined ? undefined : folded.nodes[folded.index.get(members) ?? -1]
  if (!laid || !store) return <div className="graph"><p className="empty" role="status">Laying out {graph.nodes.length.toLocaleString()} nodes …</p></div>
  return (
    <div className="graph">
      <Toolbar tasks={tasks} store={store} view={view} grouped={graph !== folded} open={open.size} onCloseAll={() => setOpen(new Set())} />
      <GraphView ref={view} store={store} placement={laid.placement} hrefOf={hrefOf} onOpen={onOpen} onClose={onClose} />
      {node && <Members node={node} tasks={tasks} hrefOf={hrefOf} onTask={onTask} onClose={() => {
        setMembers(undefined)
        const at = store.graph.index.get(node.id)
        if (at !== undefined) view.current?.show(at)
      }} />}
    </div>
  )
}

/** useFolded folds the tasks again only when one came, or its dependencies changed: not at each event. */
function useFolded(tasks: Tasks): RunGraph {
  const last = useRef<{ tasks: Tasks; graph: RunGraph }>(undefined)
  return useMemo(() => {
    const known = last.current
    const graph = known && sameShape(known.tasks, tasks) ? known.graph : foldTasks(tasks)
    last.current = { tasks, graph }
    return graph
  }, [tasks])
}

function sameShape(a: Tasks, b: Tasks): boolean {
  let size = 0
  for (const name in a) {
    if (b[name]?.depends !== a[name]!.depends) return false
    size++
  }
  return size === Object.keys(b).length
}

/** useStore returns the store of the graph that is laid out. It begins with the tasks of its moment; later ones come as updates. */
function useStore(graph: RunGraph | undefined, tasks: Tasks): GraphStore | undefined {
  const latest = useRef(tasks)
  latest.current = tasks
  const store = useMemo(() => graph && new GraphStore(graph, latest.current), [graph])
  useLayoutEffect(() => store?.update(tasks), [store, tasks])
  return store
}

/** useLayout returns the newest graph that is laid out: the one before stays until the next one is. */
function useLayout(graph: RunGraph): { graph: RunGraph; placement: Placement } | undefined {
  const [laid, setLaid] = useState<{ graph: RunGraph; placement: Placement }>()
  useEffect(() => {
    const worker = new Worker(new URL('./layout.worker.ts', import.meta.url), { type: 'module' })
    worker.onmessage = ({ data }: MessageEvent<LayoutReply>) => {
      setLaid({ graph, placement: data })
      worker.terminate()
    }
    worker.postMessage({ layers: Int32Array.from(graph.nodes, (n) => n.layer), edges: graph.edges } satisfies LayoutRequest)
    return () => worker.terminate()
  }, [graph])
  return laid
}

interface ToolbarProps {
  tasks: Tasks
  store: GraphStore
  view: React.RefObject<GraphHandle | null>
  grouped: boolean
  open: number
  onCloseAll: () => void
}

/** Toolbar counts the tasks, leads to those of a status or a name, and zooms. */
function Toolbar({ tasks, store, view, grouped, open, onCloseAll }: ToolbarProps) {
  const counts = useMemo(() => countTasks(Object.values(tasks)), [tasks])
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
    const text = event.currentTarget.value.trim().toLowerCase()
    if (event.key !== 'Enter' || !text) return
    setMissing(!next(`name ${text}`, (node) => node.label.toLowerCase().includes(text) || node.tasks.some((name) => name.toLowerCase().includes(text))))
  }
  return (
    <div className="graph-bar" role="group" aria-label="Graph">
      <div className="graph-counts">
        {statusOrder.filter((s) => counts[s]).map((s) => (
          <button key={s} data-kind={s} title={`Show the next task: ${statusLabels[s]}`} onClick={() => next(s, (_, node) => (store.state(node).counts[s as Status] ?? 0) > 0)}>
            <i aria-hidden="true">{statusSigns[s]}</i>{counts[s]!.toLocaleString()} {statusLabels[s]}
          </button>
        ))}
      </div>
      {grouped && <span className="muted">{open === 0 ? 'Large run: open a layer to see its tasks' : <button onClick={onCloseAll}>Close {open === 1 ? 'the layer' : `${open} layers`}</button>}</span>}
      <div className="graph-tools">
        <input type="search" placeholder="find a task" aria-label="Find a task" aria-invalid={missing} onKeyDown={find} onInput={() => setMissing(false)} />
        {missing && <span role="status" className="muted">no such task</span>}
        <button aria-label="Zoom out" title="Zoom out (Ctrl and scroll)" onClick={() => view.current?.zoomBy(1 / 1.4)}>−</button>
        <button aria-label="Zoom in" title="Zoom in (Ctrl and scroll)" onClick={() => view.current?.zoomBy(1.4)}>+</button>
        <button onClick={() => view.current?.fit()}>Fit</button>
      </div>
    </div>
  )
}
