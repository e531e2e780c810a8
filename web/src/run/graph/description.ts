import { duration } from '../../lib/duration'
import { statusLabels, statusOrder } from '../../lib/status'
import type { GraphNode, NodeState } from './graph'

/** descriptionOf returns what the card of a node shows besides its name, for readers of the page who do not see it. */
export function descriptionOf(node: GraphNode, state: NodeState, dependencies: number, now: number): string {
  const parts: string[] = []
  if (node.kind === 'task') {
    parts.push(statusLabels[state.status])
    if (state.attempt > 0) parts.push(`attempt ${state.attempt}`)
  } else {
    parts.push(`${state.ended.toLocaleString('en')} of ${state.total.toLocaleString('en')} tasks ended`)
    for (const status of statusOrder) if (state.counts[status]) parts.push(`${state.counts[status].toLocaleString('en')} ${statusLabels[status]}`)
  }
  const took = tookOf(state, now)
  if (took) parts.push(took)
  if (node.kind === 'task' && state.reason) parts.push(state.reason)
  if (node.finally) parts.push('finally')
  parts.push(dependencies === 0 ? 'no dependencies' : dependencies === 1 ? '1 dependency' : `${dependencies.toLocaleString('en')} dependencies`)
  return parts.join(', ')
}

/** tookOf says how long a node took; while it runs, to the minute: a description that changes each second would be read again each second. */
function tookOf(state: NodeState, now: number): string {
  if (!state.started) return ''
  if (state.finished) return `took ${duration(Date.parse(state.finished) - Date.parse(state.started))}`
  if (state.status !== 'running') return ''
  const minutes = Math.floor((now - Date.parse(state.started)) / 60_000)
  return minutes < 1 ? 'for less than a minute' : `for ${duration(minutes * 60_000).replace(' 0 s', '')}`
}
