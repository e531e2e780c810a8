import { useNavigate, useRouter } from '@tanstack/react-router'
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'react'

import { useKeys } from '../../lib/keys'
import { inSlices } from '../../lib/slices'
import { useRun } from '../../pages/Run'
import { folding, groupLayers, layerOf, type GraphNode, type RunGraph, type Tasks } from './graph'
import { GraphBar } from './GraphBar'
import { GraphKeys } from './GraphKeys'
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
  const count = Object.keys(tasks).length
  if (count === 0) return <div className="empty">The run has no tasks.</div>
  return <FoldedGraph key={run.id} run={run.id} tasks={tasks} count={count} />
}

/** FoldedGraph shows the graph as soon as its tasks are folded. */
function FoldedGraph({ run, tasks, count }: { run: string; tasks: Tasks; count: number }) {
  const folded = useFolded(tasks)
  return folded ? <Graph run={run} tasks={tasks} folded={folded} /> : <LayingOut nodes={count} />
}

function LayingOut({ nodes }: { nodes: number }) {
  return <div className="graph"><p className="empty" role="status">Laying out {nodes.toLocaleString()} nodes …</p></div>
}

function Graph({ run, tasks, folded }: { run: string; tasks: Tasks; folded: RunGraph }) {
  const navigate = useNavigate()
  const router = useRouter()
  const [open, setOpen] = useState<ReadonlySet<string>>(() => new Set())
  const graph = useMemo(() => groupLayers(folded, open), [folded, open])
  const laid = useLayout(graph)
  const store = useStore(laid?.graph, tasks)
  const [members, setMembers] = useState<string>()
  const [help, setHelp] = useState(false)
  const box = useRef<HTMLElement>(null)
  const view = useRef<GraphHandle>(null)
  const input = useRef<HTMLInputElement>(null)
  useKeys({ f: () => input.current?.focus(), '?': () => setHelp(true) })

  // The node that gets the focus when the graph with it is laid out.
  const next = useRef<string>(undefined)
  useEffect(() => {
    const node = next.current === undefined ? undefined : laid?.graph.index.get(next.current)
    if (node === undefined) return
    next.current = undefined
    view.current?.show(node)
  }, [laid])

  const hrefOf = useMemo(() => {
    const base = router.buildLocation({ to: '/runs/$id/tasks', params: { id: run } }).publicHref
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
  /** onClose closes the layer of a node; where none is open, the focus leaves the graph. */
  const onClose = useCallback((node: GraphNode) => {
    const layer = layerOf(folded, node)
    if (!open.has(layer)) return box.current?.focus()
    next.current = layer
    setOpen((layers) => new Set([...layers].filter((l) => l !== layer)))
  }, [folded, open])

  const node = members === undefined ? undefined : folded.nodes[folded.index.get(members) ?? -1]
  if (!laid || !store) return <LayingOut nodes={graph.nodes.length} />
  return (
    <section className="graph" ref={box} aria-label="Graph of the run" tabIndex={-1}>
      <GraphBar tasks={tasks} store={store} view={view} input={input} grouped={graph !== folded} open={open.size} onCloseAll={() => setOpen(new Set())} onKeys={() => setHelp(true)} />
      <GraphView ref={view} store={store} placement={laid.placement} opened={members} hrefOf={hrefOf} onOpen={onOpen} onClose={onClose} />
      {node && <Members node={node} tasks={tasks} hrefOf={hrefOf} onTask={onTask} onClose={() => {
        setMembers(undefined)
        const at = store.graph.index.get(node.id)
        if (at !== undefined) view.current?.show(at)
      }} />}
      <GraphKeys open={help} onClose={() => setHelp(false)} />
    </section>
  )
}

/**
 * useFolded folds the tasks again only when one came, or its dependencies changed: not at each event. The graph before stays
 * until the next one is ready.
 */
function useFolded(tasks: Tasks): RunGraph | undefined {
  const [graph, setGraph] = useState<RunGraph>()
  const last = useRef<Tasks>(undefined)
  const abort = useRef<AbortController>(undefined)
  useEffect(() => {
    if (last.current && sameShape(last.current, tasks)) return
    last.current = tasks
    abort.current?.abort()
    const { signal } = (abort.current = new AbortController())
    void inSlices(folding(tasks), signal).then((next) => { if (next) setGraph(next) })
  }, [tasks])
  useEffect(() => () => {
    abort.current?.abort()
    last.current = undefined
  }, [])
  return graph
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
