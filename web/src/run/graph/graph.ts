import type { Task } from '../../api/client'
import { finish } from '../../lib/slices'
import { countTasks, finalStatuses, kindOf, worst, type Counts, type Kind } from '../../lib/status'

/** A GraphNode stands for a task of the run file: for one task, for all tasks of its matrix or foreach, or for whole layers. */
export interface GraphNode {
  id: string
  label: string
  kind: 'task' | 'expansion' | 'layer'
  /** The names of the tasks it stands for, in the order of their numbers. */
  tasks: readonly string[]
  /** The length of the longest path to it, from 0. */
  layer: number
  finally: boolean
}

export interface RunGraph {
  nodes: readonly GraphNode[]
  /** Pairs of indexes of nodes: from, to, from, to ... */
  edges: Int32Array
  /** Nodes by id. */
  index: ReadonlyMap<string, number>
  /** The number of layers. */
  layers: number
}

export type Tasks = Readonly<Record<string, Task>>

/** Above this number of nodes the graph shows layers, which open on demand. */
export const maxNodes = 3000

/** How many nodes stand for layers at most: beyond it, several layers share one. */
export const maxGroups = 200

/** How many tasks are folded in one step. */
const stepTasks = 500

/** baseOf returns the name of the task in the run file: that of an expanded task ends at the bracket. */
export function baseOf(name: string): string {
  const bracket = name.indexOf('[')
  return bracket > 0 ? name.slice(0, bracket) : name
}

/**
 * foldTasks returns the graph of the run file: the tasks of a matrix or foreach are one node. Dependencies on tasks that
 * the run does not have are left out.
 */
export function foldTasks(tasks: Tasks): RunGraph {
  return finish(folding(tasks))
}

/** folding is foldTasks in steps. */
export function* folding(tasks: Tasks): Generator<undefined, RunGraph> {
  const entries = Object.entries(tasks).sort(([, a], [, b]) => a.number - b.number)
  const index = new Map<string, number>()
  const members: string[][] = []
  const last: boolean[] = []
  yield
  let steps = 0
  for (const [name, task] of entries) {
    if (++steps % stepTasks === 0) yield
    const base = baseOf(name)
    let node = index.get(base)
    if (node === undefined) {
      node = members.length
      index.set(base, node)
      members.push([])
      last.push(task.finally ?? false)
    }
    members[node]!.push(name)
  }
  const edges = new EdgeSet(members.length)
  for (const [name, task] of entries) {
    if (++steps % stepTasks === 0) yield
    const to = index.get(baseOf(name))!
    for (const d of task.depends) {
      const from = index.get(baseOf(d.task))
      if (from !== undefined) edges.add(from, to)
    }
  }
  yield
  const layers = layersOf(last, edges.pairs())
  yield
  const nodes = [...index].map(([base, i]): GraphNode => {
    // The task of a foreach runs nothing itself: it stands for its list only until that is known.
    const of = members[i]!.length > 1 ? members[i]!.filter((name) => name !== base) : members[i]!
    const single = of.length === 1
    return { id: base, label: single ? of[0]! : base, kind: single && members[i]!.length === 1 ? 'task' : 'expansion', tasks: of, layer: layers[i]!, finally: last[i]! }
  })
  return { nodes, edges: edges.pairs(), index, layers: layers.reduce((n, layer) => Math.max(n, layer + 1), 0) }
}

/** dependenciesOf returns how many nodes each node depends on. */
export function dependenciesOf(graph: RunGraph): Int32Array {
  const counts = new Int32Array(graph.nodes.length)
  for (let e = 1; e < graph.edges.length; e += 2) counts[graph.edges[e]!]!++
  return counts
}

/** groupLayers returns the graph with its layers as nodes, except those that are open. Few nodes are not grouped. */
export function groupLayers(graph: RunGraph, open: ReadonlySet<string>, limit = maxNodes): RunGraph {
  if (graph.nodes.length <= limit) return graph
  const { layers } = graph
  const each = Math.ceil(layers / maxGroups)
  const nodes: GraphNode[] = []
  const index = new Map<string, number>()
  const tasksOf = new Map<number, string[]>()
  const indexOf = graph.nodes.map((node) => {
    const first = Math.floor(node.layer / each) * each
    const id = layerID(first)
    if (open.has(id)) {
      index.set(node.id, nodes.length)
      return nodes.push(node) - 1
    }
    let at = index.get(id)
    if (at === undefined) {
      const end = Math.min(first + each, layers)
      const tasks: string[] = []
      at = nodes.push({ id, label: each === 1 ? `Layer ${first + 1}` : `Layers ${first + 1} to ${end}`, kind: 'layer', tasks, layer: first, finally: node.finally }) - 1
      index.set(id, at)
      tasksOf.set(at, tasks)
    }
    const of = tasksOf.get(at)!
    for (const name of node.tasks) of.push(name)
    return at
  })
  const edges = new EdgeSet(nodes.length)
  for (let e = 0; e < graph.edges.length; e += 2) edges.add(indexOf[graph.edges[e]!]!, indexOf[graph.edges[e + 1]!]!)
  return { nodes, edges: edges.pairs(), index, layers }
}

/** layerOf returns the id of the node that stands for the layer of a node while that layer is closed. */
export function layerOf(graph: RunGraph, node: GraphNode): string {
  const each = Math.ceil(graph.layers / maxGroups)
  return layerID(Math.floor(node.layer / each) * each)
}

/** No task has a line break in its name. */
const layerID = (first: number) => `\n${first}`

/** EdgeSet collects edges, each once and none from a node to itself. */
class EdgeSet {
  private readonly seen = new Set<number>()

  constructor(private readonly nodes: number) {}

  add(from: number, to: number) {
    if (from !== to) this.seen.add(from * this.nodes + to)
  }

  pairs(): Int32Array {
    const pairs = new Int32Array(this.seen.size * 2)
    let i = 0
    for (const edge of this.seen) {
      pairs[i++] = Math.floor(edge / this.nodes)
      pairs[i++] = edge % this.nodes
    }
    return pairs
  }
}

/**
 * layersOf returns the length of the longest path to each node. Nodes with `last` come after all others. A cycle, which
 * no run has, comes after everything else instead of hanging the page.
 */
export function layersOf(last: readonly boolean[], edges: Int32Array): Int32Array {
  const layers = new Int32Array(last.length)
  const missing = new Int32Array(last.length)
  const out: number[][] = last.map(() => [])
  for (let e = 0; e < edges.length; e += 2) {
    out[edges[e]!]!.push(edges[e + 1]!)
    missing[edges[e + 1]!]!++
  }
  const visit = (roots: number[], begin: number) => {
    let end = begin
    for (let ready = roots, layer = begin; ready.length > 0; layer++) {
      const next: number[] = []
      for (const node of ready) {
        layers[node] = layer
        missing[node] = -1
        for (const to of out[node]!) {
          // What comes last waits for its own round, also if it depends on others.
          if (--missing[to]! === 0 && (last[to] ?? false) === last[node]) next.push(to)
        }
      }
      end = layer + 1
      ready = next
    }
    return end
  }
  const roots = (of: boolean) => last.flatMap((l, node) => (l === of && missing[node] === 0 ? [node] : []))
  let end = visit(roots(false), 0)
  end = visit(roots(true), end)
  // What is left are cycles, and what depends on them.
  for (let node = 0; node < last.length; node++) if (missing[node]! > 0) layers[node] = end
  return layers
}

/** What a node shows. */
export interface NodeState {
  status: Kind
  counts: Counts
  /** The number of its tasks, and of those that have ended. */
  total: number
  ended: number
  /** Of a single task. */
  attempt: number
  reason: string
  started?: string
  finished?: string
}

/** stateOf returns what a node shows of its tasks. */
export function stateOf(tasks: Tasks, names: readonly string[]): NodeState {
  const of = names.flatMap((name) => tasks[name] ?? [])
  const counts = countTasks(of)
  const ended = of.reduce((n, t) => n + (finalStatuses.has(t.status) ? 1 : 0), 0)
  const state: NodeState = { status: worst(counts), counts, total: of.length, ended, attempt: 0, reason: '' }
  if (of.length === 1) {
    const [task] = of
    return { ...state, attempt: task!.attempt, reason: task!.reason, started: task!.started_at, finished: task!.ended_at }
  }
  state.started = extreme(of.map((t) => t.started_at), Math.min)
  if (ended === of.length) state.finished = extreme(of.map((t) => t.ended_at), Math.max)
  // A reason that tasks share is said once.
  state.reason = of.find((t) => kindOf(t) === state.status && t.reason)?.reason ?? ''
  return state
}

function extreme(times: (string | undefined)[], choose: (a: number, b: number) => number): string | undefined {
  let best: number | undefined
  for (const time of times) {
    if (!time) continue
    const at = Date.parse(time)
    best = best === undefined ? at : choose(best, at)
  }
  return best === undefined ? undefined : new Date(best).toISOString()
}

/** neighbour returns the node to which an arrow key leads: along an edge, or to the next node of the same column. */
export function neighbour(graph: RunGraph, from: number, direction: 'left' | 'right' | 'up' | 'down', at: { x: ArrayLike<number>; y: ArrayLike<number> }): number | undefined {
  let best: number | undefined
  let least = Infinity
  const consider = (node: number) => {
    const distance = Math.abs(at.y[node]! - at.y[from]!)
    if (distance < least) {
      best = node
      least = distance
    }
  }
  if (direction === 'left' || direction === 'right') {
    const [mine, other] = direction === 'right' ? [0, 1] : [1, 0]
    for (let e = 0; e < graph.edges.length; e += 2) if (graph.edges[e + mine] === from) consider(graph.edges[e + other]!)
    return best
  }
  for (let node = 0; node < graph.nodes.length; node++) {
    if (at.x[node] !== at.x[from] || node === from) continue
    if (direction === 'down' ? at.y[node]! > at.y[from]! : at.y[node]! < at.y[from]!) consider(node)
  }
  return best
}
