import { memo, useCallback, useSyncExternalStore } from 'react'

import { statusLabels, statusOrder, statusSigns } from '../../lib/status'
import { between, duration, useNow } from '../../lib/time'
import type { GraphNode, NodeState } from './graph'
import type { GraphStore } from './graphStore'
import { cardHeight, cardWidth } from './layout'
import { descriptionOf } from './description'

interface Props {
  store: GraphStore
  node: number
  x: number
  y: number
  /** How many nodes it depends on. */
  dependencies: number
  /** The list of its tasks is open. */
  opened: boolean
  tab: boolean
  hrefOf: (task: string) => string
  onOpen: (node: GraphNode) => void
  onFocus: (id: string) => void
}

const minute = 60_000

/** Card is one node. Only its own tasks draw it again. */
export const Card = memo(function Card({ store, node: number, x, y, dependencies, opened, tab, hrefOf, onOpen, onFocus }: Props) {
  const node = store.graph.nodes[number]!
  const state = useSyncExternalStore(useCallback((reader: () => void) => store.subscribe(number, reader), [store, number]), () => store.state(number))
  const now = useNow(minute) + minute
  const single = node.kind === 'task'
  return (
    <a className="card" data-node={number} data-kind={state.status} tabIndex={tab ? 0 : -1} draggable={false} style={{ left: x, top: y, width: cardWidth, height: cardHeight }}
      href={single ? hrefOf(node.tasks[0]!) : '#'} role={single ? undefined : 'button'} aria-haspopup={node.kind === 'expansion' ? 'dialog' : undefined}
      aria-expanded={single ? undefined : opened} aria-description={descriptionOf(node, state, dependencies, now)}
      title={state.reason ? `${node.label}\n${state.reason}` : node.label}
      onFocus={() => onFocus(node.id)}
      onKeyDown={(e) => {
        if (e.key !== ' ' || single) return
        e.preventDefault()
        onOpen(node)
      }}
      onClick={(e) => {
        if (single && (e.ctrlKey || e.metaKey || e.shiftKey)) return // the browser opens it elsewhere
        e.preventDefault()
        onOpen(node)
      }}>
      {/* The description says the rest to readers who do not see it: parts that change each second would be read each time. */}
      <span className="card-name">
        <i aria-hidden="true">{statusSigns[state.status]}</i>
        <b>{node.label}</b>
        {!single && <span className="card-total" aria-hidden="true">{node.kind === 'layer' ? '▸' : '×'}{'\u2009'}{state.total.toLocaleString()}</span>}
      </span>
      <span className="card-facts" aria-hidden="true">
        <em>{single ? statusLabels[state.status] : progress(state)}</em>
        {state.attempt > 1 && <span>attempt {state.attempt}</span>}
        {node.finally && single && <span>finally</span>}
        <Took state={state} />
      </span>
      {single ? <span className="card-reason" aria-hidden="true">{state.reason}</span> : <Bar state={state} />}
    </a>
  )
})

function Took({ state }: { state: NodeState }) {
  if (!state.started) return null
  if (state.finished) return <span className="card-took">{duration(Date.parse(state.finished) - Date.parse(state.started))}</span>
  return state.status === 'running' ? <Ticking started={state.started} /> : null
}

function Ticking({ started }: { started: string }) {
  return <span className="card-took">{duration(between(started, undefined, useNow())!)}</span>
}

/** Bar shows how many of several tasks have each status. */
function Bar({ state }: { state: NodeState }) {
  return (
    <span className="card-bar" aria-hidden="true">
      {statusOrder.filter((s) => state.counts[s]).map((s) => <i key={s} data-kind={s} style={{ flexGrow: state.counts[s] }} />)}
    </span>
  )
}

/** progress says how far several tasks are, beginning with what matters most. */
function progress(state: NodeState): string {
  const parts = statusOrder.filter((s) => state.counts[s])
  const shown = parts.slice(0, 2).map((s) => `${state.counts[s]!.toLocaleString()} ${statusLabels[s]}`)
  return shown.join(', ') + (parts.length > 2 ? ', …' : '')
}
