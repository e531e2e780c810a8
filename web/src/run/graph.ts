import type { Task } from '../api/client'
import { countTasks, type Counts, type worst } from '../lib/status'

/** A GraphNode stands for a task, for the expansion of a matrix or foreach, or for a layer of tasks. */
export interface GraphNode {
  id: string
  label: string
  /** The names of the tasks it stands for. */
  tasks: string[]
  counts: Counts
  kind: 'task' | 'expansion' | 'layer'
}

export interface RunGraph {
  nodes: GraphNode[]
  edges: { from: string; to: string }[]
}

export type Worst = ReturnType<typeof worst>

/** Above this number of nodes the graph shows layers instead of tasks. */
export const maxNodes = 400

/** baseOf returns the name of the task in the run file: that of an expanded task ends at the bracket. */
export function baseOf(name: string): string {
  const bracket = name.indexOf('[')
  return bracket > 0 ? name.slice(0, bracket) : name
}

/** graphOf groups the tasks: expansions of one task are one node, and beyond maxNodes each layer is one. */
export function graphOf(tasks: Readonly<Record<string, Task>>): RunGraph {
  const sizes = new Map<string, number>()
  for (const name of Object.keys(tasks)) sizes.set(baseOf(name), (sizes.get(baseOf(name)) ?? 0) + 1)
  const idOf = (name: string) => (sizes.get(baseOf(name))! > 1 ? baseOf(name) : name)
  const grouped = group(tasks, idOf, (id, of) => ({ label: id, kind: of.length > 1 ? 'expansion' : 'task' }))
  if (grouped.nodes.length <= maxNodes) return grouped
  const layers = layersOf(tasks)
  return group(tasks, (name) => `layer ${layers.get(name)!}`, (id) => ({ label: id, kind: 'layer' }))
}

function group(tasks: Readonly<Record<string, Task>>, idOf: (name: string) => string, describe: (id: string, of: string[]) => Pick<GraphNode, 'label' | 'kind'>): RunGraph {
  const members = new Map<string, string[]>()
  for (const name of Object.keys(tasks)) {
    const id = idOf(name)
    const of = members.get(id)
    if (of) of.push(name)
    else members.set(id, [name])
  }
  const edges = new Map<string, { from: string; to: string }>()
  for (const [name, task] of Object.entries(tasks)) {
    const to = idOf(name)
    for (const dependency of dependenciesOf(tasks, task)) {
      const from = idOf(dependency)
      if (from !== to) edges.set(`${from}\n${to}`, { from, to })
    }
  }
  const nodes = [...members].map(([id, of]): GraphNode => ({ id, tasks: of, counts: countTasks(of.map((n) => tasks[n]!)), ...describe(id, of) }))
  return { nodes, edges: [...edges.values()] }
}

/** dependenciesOf returns the tasks that a task depends on. The name of an expanded task stands for its expansion. */
function* dependenciesOf(tasks: Readonly<Record<string, Task>>, task: Task): Generator<string> {
  for (const d of task.depends) {
    if (d.task in tasks) yield d.task
    else yield* expansions(tasks).get(d.task) ?? []
  }
}

let known: { tasks: Readonly<Record<string, Task>>; of: Map<string, string[]> } | undefined

function expansions(tasks: Readonly<Record<string, Task>>): Map<string, string[]> {
  if (known?.tasks !== tasks) known = { tasks, of: Map.groupBy(Object.keys(tasks), baseOf) }
  return known.of
}

/** layersOf returns the length of the longest path to each task, from 1. */
export function layersOf(tasks: Readonly<Record<string, Task>>): Map<string, number> {
  const dependents = new Map<string, string[]>()
  const missing = new Map<string, number>()
  for (const [name, task] of Object.entries(tasks)) {
    const of = new Set(dependenciesOf(tasks, task))
    missing.set(name, of.size)
    for (const d of of) {
      const dependent = dependents.get(d)
      if (dependent) dependent.push(name)
      else dependents.set(d, [name])
    }
  }
  const layers = new Map<string, number>()
  let ready = [...missing].filter(([, n]) => n === 0).map(([name]) => name)
  for (let layer = 1; ready.length > 0; layer++) {
    const next: string[] = []
    for (const name of ready) {
      layers.set(name, layer)
      for (const d of dependents.get(name) ?? []) {
        const left = missing.get(d)! - 1
        missing.set(d, left)
        if (left === 0) next.push(d)
      }
    }
    ready = next
  }
  return layers
}
