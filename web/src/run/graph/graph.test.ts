import { describe, expect, it } from 'vitest'

import type { Task } from '../../api/client'
import { baseOf, dependenciesOf, foldTasks, groupLayers, layerOf, layersOf, maxGroups, neighbour, stateOf, type RunGraph } from './graph'
import { GraphStore } from './graphStore'
import { cardHeight, place } from './layout'

const task = (number: number, depends: string[] = [], more: Partial<Task> = {}): Task => ({
  number, status: 'not_started', reason: '', pool: 'default', executor: '', attempt: 0, timed_out: false,
  depends: depends.map((name) => ({ task: name, on: ['success'] })), outputs: {}, annotations: {}, steps: [], ...more,
})

const names = (graph: RunGraph) => graph.nodes.map((n) => n.id)
const edges = (graph: RunGraph) => {
  const out: string[] = []
  for (let e = 0; e < graph.edges.length; e += 2) out.push(`${graph.nodes[graph.edges[e]!]!.id}>${graph.nodes[graph.edges[e + 1]!]!.id}`)
  return out.sort()
}
const layers = (graph: RunGraph) => Object.fromEntries(graph.nodes.map((n) => [n.id, n.layer]))

/** A generator of numbers from 0 to below 1, always the same. */
function random(seed: number) {
  return () => (seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31) / 2 ** 31
}

function distinct(count: number, perLayer: number, degree: number, seed = 1) {
  const next = random(seed)
  const tasks: Record<string, Task> = {}
  for (let i = 0; i < count; i++) {
    const layer = Math.floor(i / perLayer)
    // One dependency is of the layer before, the others of any.
    const depends = layer === 0 ? [] : Array.from({ length: degree }, (_, d) => `t${Math.floor((d === 0 ? layer - 1 + next() : next() * layer) * perLayer)}`)
    tasks[`t${i}`] = task(i, [...new Set(depends)])
  }
  return tasks
}

describe('foldTasks', () => {
  it('makes one node of a matrix', () => {
    const graph = foldTasks({
      build: task(0), 'test[OS=linux]': task(1, ['build']), 'test[OS=mac]': task(2, ['build']), publish: task(3, ['test']),
    })
    expect(names(graph)).toEqual(['build', 'test', 'publish'])
    expect(graph.nodes.map((n) => n.kind)).toEqual(['task', 'expansion', 'task'])
    expect(graph.nodes[1]!.tasks).toEqual(['test[OS=linux]', 'test[OS=mac]'])
    expect(edges(graph)).toEqual(['build>test', 'test>publish'])
    expect(layers(graph)).toEqual({ build: 0, test: 1, publish: 2 })
  })
  it('leaves the task of a foreach out of its list', () => {
    const before = foldTasks({ plan: task(0), build: task(1, ['plan']), publish: task(2, ['build']) })
    expect(before.nodes[1]).toMatchObject({ kind: 'task', tasks: ['build'] })
    const graph = foldTasks({ plan: task(0), build: task(1, ['plan']), publish: task(2, ['build']), 'build[0]': task(3, ['plan']), 'build[1]': task(4, ['plan']) })
    expect(names(graph)).toEqual(['plan', 'build', 'publish'])
    expect(graph.nodes[1]).toMatchObject({ kind: 'expansion', tasks: ['build[0]', 'build[1]'] })
    expect(edges(graph)).toEqual(['build>publish', 'plan>build'])
  })
  it('ignores unknown dependencies, and those of a task on itself', () => {
    const graph = foldTasks({ a: task(0, ['gone', 'a']), b: task(1, ['a', 'other[1]']) })
    expect(edges(graph)).toEqual(['a>b'])
  })
  it('puts what runs at the end behind everything else', () => {
    const graph = foldTasks({ clean: task(0, [], { finally: true }), a: task(1), b: task(2, ['a']), report: task(3, ['clean', 'a'], { finally: true }) })
    expect(layers(graph)).toEqual({ a: 0, b: 1, clean: 2, report: 3 })
  })
  it('has no edge to an earlier layer in any graph', () => {
    for (let seed = 1; seed < 30; seed++) {
      const graph = foldTasks(distinct(120, 10, 3, seed))
      for (let e = 0; e < graph.edges.length; e += 2) expect(graph.nodes[graph.edges[e]!]!.layer).toBeLessThan(graph.nodes[graph.edges[e + 1]!]!.layer)
    }
  })
  it('ends for cycles, which no run has', () => {
    const graph = foldTasks({ a: task(0, ['c']), b: task(1, ['a']), c: task(2, ['b']), d: task(3), e: task(4, ['c', 'd']) })
    expect(graph.nodes).toHaveLength(5)
    expect(layers(graph)).toMatchObject({ d: 0, a: 1, b: 1, c: 1 })
    expect(() => place(Int32Array.from(graph.nodes, (n) => n.layer), graph.edges)).not.toThrow()
  })
  it('takes 10,000 tasks', () => {
    expect(foldTasks(distinct(10_000, 500, 3)).nodes).toHaveLength(10_000)
  })
})

describe('groupLayers', () => {
  it('leaves a small graph as it is', () => {
    const graph = foldTasks(distinct(100, 10, 2))
    expect(groupLayers(graph, new Set())).toBe(graph)
  })
  it('shows layers, and the nodes of open ones', () => {
    const graph = foldTasks(distinct(100, 10, 2))
    const closed = groupLayers(graph, new Set(), 50)
    expect(closed.nodes.map((n) => n.label)).toEqual(Array.from({ length: 10 }, (_, i) => `Layer ${i + 1}`))
    expect(closed.nodes.flatMap((n) => n.tasks)).toHaveLength(100)
    const layer = layerOf(graph, graph.nodes[35]!)
    const open = groupLayers(graph, new Set([layer]), 50)
    expect(open.nodes).toHaveLength(19)
    expect(open.nodes.filter((n) => n.kind === 'task').map((n) => n.layer)).toEqual(Array(10).fill(3))
    expect(open.index.has('t35')).toBe(true)
    expect(open.nodes.flatMap((n) => n.tasks).sort()).toEqual(Object.keys(distinct(100, 10, 2)).sort())
  })
  it('bounds the nodes of a very long chain', () => {
    const tasks = Object.fromEntries(Array.from({ length: 5000 }, (_, i) => [`t${i}`, task(i, i > 0 ? [`t${i - 1}`] : [])]))
    const graph = groupLayers(foldTasks(tasks), new Set())
    expect(graph.nodes.length).toBeLessThanOrEqual(maxGroups)
    expect(graph.nodes[0]!.label).toBe('Layers 1 to 25')
    expect(graph.nodes.flatMap((n) => n.tasks)).toHaveLength(5000)
  })
})

describe('dependenciesOf', () => {
  it('counts the nodes that a node depends on', () => {
    const graph = foldTasks({ a: task(0), b: task(1, ['a']), 'c[0]': task(2, ['a', 'b']), 'c[1]': task(3, ['a']) })
    expect([...dependenciesOf(graph)]).toEqual([0, 1, 2])
  })
})

describe('layersOf', () => {
  it('is the longest path', () => {
    expect([...layersOf([false, false, false, false], Int32Array.of(0, 1, 1, 2, 0, 2, 2, 3))]).toEqual([0, 1, 2, 3])
  })
})

describe('stateOf', () => {
  it('adds up several tasks', () => {
    const tasks = {
      'a[0]': task(0, [], { status: 'success', started_at: '2026-01-01T00:00:01Z', ended_at: '2026-01-01T00:00:03Z' }),
      'a[1]': task(1, [], { status: 'failed', reason: 'exit code 1', started_at: '2026-01-01T00:00:00.5Z', ended_at: '2026-01-01T00:00:02Z' }),
    }
    expect(stateOf(tasks, ['a[0]', 'a[1]', 'a[gone]'])).toMatchObject({
      status: 'failed', total: 2, ended: 2, reason: 'exit code 1', counts: { success: 1, failed: 1 }, started: '2026-01-01T00:00:00.500Z', finished: '2026-01-01T00:00:03.000Z',
    })
  })
})

describe('GraphStore', () => {
  it('announces only the nodes whose tasks changed', () => {
    const tasks = { a: task(0), b: task(1, ['a']) }
    const store = new GraphStore(foldTasks(tasks), tasks)
    const told: string[] = []
    store.subscribe(0, () => told.push('a'))
    store.subscribe(1, () => told.push('b'))
    store.subscribeAll(() => told.push('all'))
    expect(store.state(0)).toBe(store.state(0))
    expect(store.state(1).status).toBe('not_started')
    store.update({ ...tasks, b: { ...tasks.b, status: 'running' } })
    expect(told).toEqual(['b', 'all'])
    expect(store.state(1).status).toBe('running')
  })
  it('takes several frames when all nodes change at once, and then shows the newest tasks', () => {
    const all = (status: Task['status']) => Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`t${i}`, task(i, [], { status })]))
    const frames: (() => void)[] = []
    const store = new GraphStore(foldTasks(all('queued')), all('queued'), (next) => frames.push(next))
    const told: number[] = []
    for (let node = 0; node < 100; node++) {
      store.state(node)
      store.subscribe(node, () => told.push(node))
    }
    store.update(all('running'))
    expect(told.length).toBeGreaterThan(0)
    expect(told.length).toBeLessThan(100)
    const waiting = Array.from({ length: 100 }, (_, i) => i).find((node) => !told.includes(node))!
    expect(store.state(waiting).status, 'what was not announced stays as it is shown').toBe('queued')
    store.update(all('stopped'))
    expect(frames).toHaveLength(1)
    while (frames.length > 0) frames.shift()!()
    expect(new Set(told).size).toBe(100)
    for (let node = 0; node < 100; node++) expect(store.state(node).status).toBe('stopped')
  })
})

describe('baseOf', () => {
  it('ends at the bracket', () => {
    expect([baseOf('a'), baseOf('a[x=[]]'), baseOf('[odd]')]).toEqual(['a', 'a', '[odd]'])
  })
})

describe('place', () => {
  const layout = (graph: RunGraph) => place(Int32Array.from(graph.nodes, (n) => n.layer), graph.edges)

  it('lets no nodes overlap, and goes from left to right', () => {
    for (const tasks of [distinct(300, 20, 3), distinct(400, 200, 2), distinct(50, 50, 0), { a: task(0) }]) {
      const graph = foldTasks(tasks)
      const { x, y, width, height } = layout(graph)
      const columns = new Map<number, number[]>()
      graph.nodes.forEach((_, i) => {
        expect(y[i]).toBeGreaterThanOrEqual(-0.01)
        expect(y[i]! + cardHeight).toBeLessThanOrEqual(height + 0.01)
        expect(x[i]).toBeLessThan(width)
        columns.set(x[i]!, [...(columns.get(x[i]!) ?? []), y[i]!])
      })
      for (const column of columns.values()) {
        column.sort((a, b) => a - b)
        for (let i = 1; i < column.length; i++) expect(column[i]! - column[i - 1]!).toBeGreaterThanOrEqual(cardHeight)
      }
      for (let e = 0; e < graph.edges.length; e += 2) expect(x[graph.edges[e]!]).toBeLessThan(x[graph.edges[e + 1]!]!)
    }
  })
  it('draws a chain as a straight line', () => {
    const { y } = layout(foldTasks({ a: task(0), b: task(1, ['a']), c: task(2, ['b']) }))
    expect(new Set(y).size).toBe(1)
  })
  it('bends edges that cross a layer, within it', () => {
    const { bends, bendsAt, height } = layout(foldTasks({ a: task(0), b: task(1, ['a']), c: task(2, ['a', 'b']) }))
    expect(bends).toHaveLength(3)
    expect(bendsAt.at(-1)).toBe(1)
    expect(bends[2]).toBeGreaterThanOrEqual(0)
    expect(bends[2]).toBeLessThanOrEqual(height)
  })
  it('bounds the bends of 2,000 nodes in 20 layers', () => {
    const { bends, bendsAt, height } = layout(foldTasks(distinct(2000, 100, 3)))
    expect(bendsAt.at(-1)).toBe(bends.length / 3)
    expect(bends.length / 3).toBeLessThanOrEqual(3000)
    expect(height).toBeLessThan(20_000)
  })
})

describe('neighbour', () => {
  it('follows edges and columns', () => {
    const graph = foldTasks({ a: task(0), b: task(1, ['a']), c: task(2, ['a']), d: task(3, ['b', 'c']) })
    const at = { x: [0, 1, 1, 2], y: [5, 0, 10, 5] }
    expect(neighbour(graph, 1, 'down', at)).toBe(2)
    expect(neighbour(graph, 2, 'up', at)).toBe(1)
    expect(neighbour(graph, 1, 'left', at)).toBe(0)
    expect(neighbour(graph, 1, 'right', at)).toBe(3)
    expect(neighbour(graph, 3, 'right', at)).toBeUndefined()
    expect(neighbour(graph, 0, 'up', at)).toBeUndefined()
  })
})
