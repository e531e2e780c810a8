import { stateOf, type NodeState, type RunGraph, type Tasks } from './graph'

/**
 * GraphStore has what each node of a graph shows. An update computes and announces only the nodes whose tasks changed, so
 * that an event in a run of 10,000 tasks draws one card.
 */
export class GraphStore {
  private readonly states: (NodeState | undefined)[]
  private readonly readers = new Map<number, Set<() => void>>()
  private readonly drawers = new Set<() => void>()

  constructor(readonly graph: RunGraph, private tasks: Tasks) {
    this.states = Array.from({ length: graph.nodes.length })
  }

  state(node: number): NodeState {
    return (this.states[node] ??= stateOf(this.tasks, this.graph.nodes[node]!.tasks))
  }

  /** update takes the tasks of the run. Tasks that did not change must keep their identity. */
  update(tasks: Tasks) {
    if (tasks === this.tasks) return
    const old = this.tasks
    this.tasks = tasks
    let changed = false
    this.graph.nodes.forEach((node, i) => {
      if (this.states[i] === undefined || node.tasks.every((name) => tasks[name] === old[name])) return
      this.states[i] = undefined
      changed = true
      for (const read of this.readers.get(i) ?? []) read()
    })
    if (changed) for (const draw of this.drawers) draw()
  }

  /** subscribe calls a reader when a node changes. */
  subscribe(node: number, reader: () => void): () => void {
    const readers = this.readers.get(node) ?? new Set()
    this.readers.set(node, readers.add(reader))
    return () => readers.delete(reader)
  }

  /** subscribeAll calls a reader once for each update that changes any node. */
  subscribeAll(reader: () => void): () => void {
    this.drawers.add(reader)
    return () => this.drawers.delete(reader)
  }
}
