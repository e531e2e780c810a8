/** The size of a node, in pixels at zoom 1. */
export const cardWidth = 232
export const cardHeight = 76

const columnGap = 68
const rowGap = 18
const bendHeight = 6

/** A layer with more nodes than this is drawn in several columns. */
const tallest = 120

/** How many bends a graph has at most; further edges cross the layers in a straight line. Bends take room between the nodes. */
const maxBends = 3000

/** Placement says where the nodes of a graph are: left and top of each, and through what its edges pass. */
export interface Placement {
  x: Float32Array
  y: Float32Array
  width: number
  height: number
  /** The bends of edge e are numbers bendsAt[e] to bendsAt[e + 1]. */
  bendsAt: Int32Array
  /** Three numbers for each bend: the edge runs from x1 to x2 at the height y. */
  bends: Float32Array
}

/**
 * place lays out a graph whose layers are known, from left to right: it orders each layer by the mean of the neighbours
 * (Sugiyama's method) and then moves nodes towards their neighbours. Its time is linear in nodes and edges but for the
 * sorting: elkjs, dagre and d3-dag take 3 s to 6 s for 2,000 nodes (docs/benchmarks.md).
 */
export function place(layers: Int32Array, edges: Int32Array): Placement {
  const nodes = layers.length
  const used = [...new Set(layers)].sort((a, b) => a - b)
  const columnOfLayer = new Map(used.map((layer, i) => [layer, i]))
  const column = Array.from(layers, (layer) => columnOfLayer.get(layer)!)
  const columns: number[][] = used.map(() => [])
  column.forEach((c, node) => { columns[c]!.push(node) })

  // An edge over several layers gets a bend in each, which is ordered like a node.
  const before: number[][] = Array.from({ length: nodes }, () => [])
  const after: number[][] = Array.from({ length: nodes }, () => [])
  const bendsAt = new Int32Array(edges.length / 2 + 1)
  let bends = 0
  for (let e = 0; e < edges.length; e += 2) {
    const from = edges[e]!
    const to = edges[e + 1]!
    const span = column[to]! - column[from]! - 1
    if (span >= 0 && bends + span <= maxBends) {
      let left = from
      for (let c = column[from]! + 1; c < column[to]!; c++) {
        const bend = nodes + bends++
        columns[c]!.push(bend)
        before.push([left])
        after.push([])
        after[left]!.push(bend)
        left = bend
      }
      after[left]!.push(to)
      before[to]!.push(left)
    }
    bendsAt[e / 2 + 1] = bends
  }

  orderColumns(columns, before, after)
  const high = (item: number) => (item < nodes ? cardHeight : bendHeight)
  const { centre, shelf, width, lefts, rights } = coordinates(columns, before, after, nodes, high)

  let top = Infinity
  let bottom = -Infinity
  for (let item = 0; item < centre.length; item++) {
    top = Math.min(top, centre[item]! - high(item) / 2)
    bottom = Math.max(bottom, centre[item]! + high(item) / 2)
  }
  const placement: Placement = {
    x: new Float32Array(nodes), y: new Float32Array(nodes), width, height: nodes > 0 ? bottom - top : 0, bendsAt, bends: new Float32Array(3 * bends),
  }
  columns.forEach((items, c) => {
    for (const item of items) {
      if (item < nodes) {
        placement.x[item] = lefts[c]! + shelf[item]! * (cardWidth + rowGap)
        placement.y[item] = centre[item]! - cardHeight / 2 - top
      } else {
        placement.bends.set([lefts[c]!, rights[c]!, centre[item]! - top], 3 * (item - nodes))
      }
    }
  })
  return placement
}

function orderColumns(columns: number[][], before: number[][], after: number[][]) {
  const at = new Float64Array(before.length)
  const number = (items: number[]) => items.forEach((item, i) => { at[item] = i })
  columns.forEach(number)
  let best = columns.map((items) => [...items])
  let fewest = crossings(columns, after, at)
  for (let sweep = 0; sweep < 8 && fewest > 0; sweep++) {
    const forward = sweep % 2 === 0
    for (let i = 1; i < columns.length; i++) {
      const items = columns[forward ? i : columns.length - 1 - i]!
      const beside = forward ? before : after
      const mean = new Map(items.map((item) => [item, meanOf(beside[item]!, at) ?? at[item]!]))
      items.sort((a, b) => mean.get(a)! - mean.get(b)! || at[a]! - at[b]!)
      number(items)
    }
    const now = crossings(columns, after, at)
    if (now < fewest) {
      fewest = now
      best = columns.map((items) => [...items])
    }
  }
  best.forEach((items, c) => { columns[c] = items })
}

function meanOf(items: readonly number[], at: ArrayLike<number>): number | undefined {
  if (items.length === 0) return undefined
  let sum = 0
  for (const item of items) sum += at[item]!
  return sum / items.length
}

/** crossings counts the pairs of edges that cross, with a Fenwick tree for each pair of columns. */
function crossings(columns: number[][], after: number[][], at: Float64Array): number {
  let count = 0
  for (let c = 0; c + 1 < columns.length; c++) {
    const size = columns[c + 1]!.length
    const tree = new Int32Array(size + 1)
    let edges = 0
    for (const item of columns[c]!) {
      const targets = after[item]!
      for (const to of targets) {
        let upTo = 0
        for (let i = at[to]! + 1; i > 0; i -= i & -i) upTo += tree[i]!
        count += edges - upTo
      }
      for (const to of targets) {
        for (let i = at[to]! + 1; i <= size; i += i & -i) tree[i]!++
      }
      edges += targets.length
    }
  }
  return count
}

function coordinates(columns: number[][], before: number[][], after: number[][], nodes: number, high: (item: number) => number) {
  const centre = new Float64Array(before.length)
  const shelf = new Int32Array(before.length) // the column of a node within its layer
  const lefts: number[] = []
  const rights: number[] = []
  const fixed: boolean[] = []
  let x = 0
  columns.forEach((items, c) => {
    const cards = items.filter((item) => item < nodes)
    const rows = cards.length > tallest ? Math.ceil(Math.sqrt(4 * cards.length)) : cards.length
    const shelves = Math.max(1, Math.ceil(cards.length / Math.max(1, rows)))
    fixed[c] = shelves > 1
    if (fixed[c]) {
      cards.forEach((item, i) => {
        shelf[item] = Math.floor(i / rows)
        centre[item] = ((i % rows) - (rows - 1) / 2) * (cardHeight + rowGap)
      })
    } else {
      const begins = offsets(items, high)
      const middle = (begins.at(-1) ?? 0) / 2
      items.forEach((item, i) => { centre[item] = begins[i]! - middle })
    }
    lefts[c] = x
    x += shelves * (cardWidth + rowGap) - rowGap
    rights[c] = x
    x += columnGap
  })
  for (let sweep = 0; sweep < 12; sweep++) {
    const forward = sweep % 2 === 0
    for (let i = 0; i < columns.length; i++) {
      const c = forward ? i : columns.length - 1 - i
      if (fixed[c]) continue
      const items = columns[c]!
      const wanted = items.map((item) => {
        const beside = sweep < 10 ? (forward ? before : after)[item]! : [...before[item]!, ...after[item]!]
        return meanOf(beside, centre) ?? centre[item]!
      })
      // Straight long edges matter more than the place of a node.
      spread(items, wanted, items.map((item) => (item < nodes ? 1 : 3)), offsets(items, high), centre)
    }
  }
  return { centre, shelf, lefts, rights, width: Math.max(0, x - columnGap) }
}

/** offsets returns the least distances of the items of a column from its first. */
function offsets(items: readonly number[], high: (item: number) => number): number[] {
  const out: number[] = []
  items.forEach((item, i) => {
    const previous = items[i - 1]
    out.push(previous === undefined ? 0 : out[i - 1]! + (high(previous) + high(item)) / 2 + (high(item) === bendHeight && high(previous) === bendHeight ? 0 : rowGap))
  })
  return out
}

/** spread moves the items of a column as near as possible to where they want to be, in their order and without overlap: isotonic regression. */
function spread(items: readonly number[], wanted: readonly number[], weight: readonly number[], least: readonly number[], centre: Float64Array) {
  const blocks: { mean: number; weight: number; count: number }[] = []
  for (let i = 0; i < items.length; i++) {
    let block = { mean: wanted[i]! - least[i]!, weight: weight[i]!, count: 1 }
    for (let previous = blocks.at(-1); previous && previous.mean > block.mean; previous = blocks.at(-1)) {
      blocks.pop()
      const sum = previous.weight + block.weight
      block = { mean: (previous.mean * previous.weight + block.mean * block.weight) / sum, weight: sum, count: previous.count + block.count }
    }
    blocks.push(block)
  }
  let i = 0
  for (const { mean, count } of blocks) {
    for (const end = i + count; i < end; i++) centre[items[i]!] = mean + least[i]!
  }
}
