import { slice } from '../../lib/slices'
import { stateOf, type NodeState, type RunGraph, type Tasks } from './graph'

/** How many cards are drawn again in one slice. */
const maxReaders = 24

/** later continues an update. A hidden page has no frames: it continues when it is shown. */
const inFrame = (continued: () => void) => void requestAnimationFrame(continued)

/**
 * GraphStore has what each node of a graph shows. An update computes and announces only the nodes whose tasks changed, so
 * that an event in a run of 10,000 tasks draws one card. If all of them change at once, the update takes several frames.
 */
export class GraphStore {
  private readonly states: (NodeState | undefined)[]
  private readonly readers = new Map<number, Set<() => void>>()
  private readonly drawers = new Set<() => void>()
  /** The nodes whose tasks changed since their state was computed. */
  private readonly stale = new Set<number>()
  private continuing = false

  constructor(readonly graph: RunGraph, private tasks: Tasks, private readonly later: (continued: () => void) => void = inFrame) {
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
    const changed = (node: number) => this.states[node] !== undefined && this.graph.nodes[node]!.tasks.some((name) => tasks[name] !== old[name])
    // What is an element of the page comes first.
    for (const node of this.readers.keys()) if (changed(node)) this.stale.add(node)
    for (let node = 0; node < this.states.length; node++) if (changed(node)) this.stale.add(node)
    if (!this.continuing) this.continue()
  }

  private continue() {
    this.continuing = false
    if (this.stale.size === 0) return
    slice(this.refresh())
    for (const draw of this.drawers) draw()
    if (this.stale.size === 0) return
    this.continuing = true
    this.later(() => this.continue())
  }

  /** refresh computes the states of stale nodes in steps, until enough cards are drawn again. */
  private *refresh(): Generator<undefined, void> {
    let told = 0
    for (const node of this.stale) {
      if (told >= maxReaders) return
      this.stale.delete(node)
      this.states[node] = undefined
      for (const read of this.readers.get(node) ?? []) {
        read()
        told++
      }
      yield
    }
  }

  /** subscribe calls a reader when a node changes. */
  subscribe(node: number, reader: () => void): () => void {
    const readers = this.readers.get(node) ?? new Set()
    this.readers.set(node, readers.add(reader))
    return () => {
      readers.delete(reader)
      if (readers.size === 0 && this.readers.get(node) === readers) this.readers.delete(node)
    }
  }

  /** subscribeAll calls a reader after each part of an update that changes any node. */
  subscribeAll(reader: () => void): () => void {
    this.drawers.add(reader)
    return () => {
      this.drawers.delete(reader)
    }
  }
}
