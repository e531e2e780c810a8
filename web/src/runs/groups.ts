import type { components } from '../api/schema.gen'

export type Group = components['schemas']['Group']

/** A GroupNode is a path of the tree. Paths without runs of their own have none. */
export interface GroupNode {
  path: string
  name: string
  children: GroupNode[]
}

/** treeOf returns the tree of some paths. A path with one child only, and no runs, is joined with it. */
export function treeOf(paths: readonly string[]): GroupNode[] {
  const own = new Set(paths)
  const root: GroupNode = { path: '', name: '', children: [] }
  const nodes = new Map<string, GroupNode>([['', root]])
  const add = (path: string): GroupNode => {
    const old = nodes.get(path)
    if (old) return old
    const slash = path.lastIndexOf('/')
    const parent = add(path.slice(0, Math.max(0, slash)))
    const node = { path, name: path.slice(slash + 1), children: [] }
    nodes.set(path, node)
    parent.children.push(node)
    return node
  }
  for (const path of paths) add(path)
  const join = (node: GroupNode): GroupNode => {
    const children = node.children.map(join)
    const only = children[0]
    if (children.length === 1 && only && !own.has(node.path)) return { ...only, name: `${node.name}/${only.name}` }
    return { ...node, children: children.sort((a, b) => (a.name < b.name ? -1 : 1)) }
  }
  return root.children.map(join).sort((a, b) => (a.name < b.name ? -1 : 1))
}

/** pathsOf returns the paths of all nodes. */
export function pathsOf(nodes: readonly GroupNode[]): string[] {
  return nodes.flatMap((n) => [n.path, ...pathsOf(n.children)])
}
