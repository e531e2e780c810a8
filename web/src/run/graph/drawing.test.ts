import { describe, expect, it } from 'vitest'

import { foldTasks, type Tasks } from './graph'
import { painting, type Scene, type Theme } from './drawing'
import { GraphStore } from './graphStore'
import { place } from './layout'

/** A context that counts the calls of its methods. */
function counting() {
  const calls: Record<string, number> = {}
  const context = new Proxy({} as Record<string, unknown>, {
    get: (target, name: string) => target[name] ?? (() => { calls[name] = (calls[name] ?? 0) + 1 }),
    set: (target, name: string, value) => {
      target[name] = value
      return true
    },
  })
  return { calls, context: context as unknown as CanvasRenderingContext2D }
}

const theme: Theme = {
  panel: 'p', line: 'l', edge: 'e', text: 't', focus: 'f', font: 'x',
  status: { success: 's', failed: 's', running: 's', warnings: 's', waiting_approval: 's', waiting_changegroup: 's', stopped: 's', not_started: 's', queued: 's', skipped: 's', cancelled: 's' },
}

describe('painting', () => {
  const tasks: Tasks = Object.fromEntries(Array.from({ length: 2000 }, (_, i) => [`t${i}`, {
    number: i, status: i % 2 ? 'success' : 'queued', reason: '', pool: 'default', executor: '', attempt: 1, timed_out: false,
    depends: i < 100 ? [] : [{ task: `t${i - 100}`, on: ['success'] }], outputs: {}, annotations: {}, steps: [],
  }]))
  const graph = foldTasks(tasks)
  const placement = place(Int32Array.from(graph.nodes, (n) => n.layer), graph.edges)
  const scene: Scene = { store: new GraphStore(graph, tasks), placement, theme, active: undefined, cards: new Set() }

  it('draws a large graph in steps of a bounded size', () => {
    const { calls, context } = counting()
    let steps = 0
    let most = 0
    let before = 0
    const work = painting(context, scene, { x: 0, y: 0, k: 0.05 }, { w: 2000, h: 2000 }, 1)
    while (!work.next().done) {
      steps++
      const now = (calls.fillRect ?? 0) + (calls.lineTo ?? 0)
      most = Math.max(most, now - before)
      before = now
    }
    expect(calls.fillRect).toBe(2000)
    expect(calls.moveTo).toBe(graph.edges.length / 2)
    expect(steps).toBeGreaterThan(50)
    expect(most).toBeLessThanOrEqual(200)
  })
  it('leaves out what is not in view, and the nodes that are elements of the page', () => {
    const { calls, context } = counting()
    const near = { ...scene, cards: new Set([0, 1, 2, 3]) }
    for (const work = painting(context, near, { x: 0, y: 0, k: 1 }, { w: 100, h: placement.height }, 1); !work.next().done;);
    expect(calls.fillText).toBe(2 * 96)
  })
})
