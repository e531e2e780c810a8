import { useNavigate } from '@tanstack/react-router'
import { Background, Controls, Handle, MiniMap, Position, ReactFlow, type Edge, type Node, type NodeProps } from '@xyflow/react'
import '@xyflow/react/dist/style.css'
import { memo, useEffect, useMemo, useState } from 'react'

import { statusLabels, statusOrder, worst } from '../lib/status'
import { useRun } from '../pages/Run'
import { graphOf, type GraphNode, type RunGraph } from './graph'
import type { LayoutReply, LayoutRequest } from './layout.worker'

type TaskNode = Node<{ node: GraphNode; text: string }, 'task'>

const Card = memo(function Card({ data }: NodeProps<TaskNode>) {
  const { node, text } = data
  return (
    <div className="node" data-kind={worst(node.counts)}>
      <Handle type="target" position={Position.Left} isConnectable={false} />
      <b title={node.label}>{node.label}</b>
      <span><em>{text}</em></span>
      <Handle type="source" position={Position.Right} isConnectable={false} />
    </div>
  )
}, (a, b) => a.data.text === b.data.text && a.data.node.label === b.data.node.label && worst(a.data.node.counts) === worst(b.data.node.counts))

const nodeTypes = { task: Card }

function describe(node: GraphNode): string {
  if (node.kind === 'task') return statusLabels[worst(node.counts)]
  return statusOrder.filter((s) => node.counts[s]).map((s) => `${node.counts[s]} ${statusLabels[s]}`).join(', ')
}

/** GraphTab draws the graph of the run. Its shape is laid out once in a worker; events only change the cards. */
export function GraphTab() {
  const run = useRun().data
  const navigate = useNavigate()
  const graph = useMemo(() => graphOf(run?.tasks ?? {}), [run?.tasks])
  const positions = useLayout(graph)
  const nodes = useMemo(
    () => graph.nodes.map((node): TaskNode => ({ id: node.id, type: 'task', position: positions?.[node.id] ?? { x: 0, y: 0 }, data: { node, text: describe(node) }, ariaLabel: `${node.label}: ${describe(node)}` })),
    [graph, positions],
  )
  const edges = useMemo(() => graph.edges.map((e): Edge => ({ id: `${e.from}\n${e.to}`, source: e.from, target: e.to, focusable: false })), [graph])
  if (!run) return null
  if (!positions) return <div className="graph"><p className="empty">Laying out {graph.nodes.length} nodes …</p></div>
  const open = (node: GraphNode) => {
    if (node.kind === 'task') void navigate({ to: '/runs/$id/tasks/$task', params: { id: run.id, task: node.tasks[0]! } })
    else void navigate({ to: '/runs/$id/tasks', params: { id: run.id } })
  }
  return (
    <div className="graph">
      <ReactFlow
        nodes={nodes} edges={edges} nodeTypes={nodeTypes} fitView minZoom={0.05} onlyRenderVisibleElements
        nodesDraggable={false} nodesConnectable={false} edgesFocusable={false} colorMode="system"
        onNodeClick={(_, n) => open(n.data.node)}
        onKeyDown={(e) => {
          const id = (e.target as HTMLElement).dataset.id
          const node = e.key === 'Enter' ? graph.nodes.find((n) => n.id === id) : undefined
          if (node) open(node)
        }}
      >
        <Background />
        <Controls showInteractive={false} />
        {graph.nodes.length > 20 && <MiniMap pannable zoomable />}
      </ReactFlow>
    </div>
  )
}

function useLayout(graph: RunGraph): LayoutReply['positions'] | undefined {
  const shape = useMemo(() => JSON.stringify([graph.nodes.map((n) => n.id), graph.edges]), [graph])
  const [laid, setLaid] = useState<{ shape: string; positions: LayoutReply['positions'] }>()
  useEffect(() => {
    const [nodes, edges] = JSON.parse(shape) as [string[], LayoutRequest['edges']]
    const worker = new Worker(new URL('./layout.worker.ts', import.meta.url), { type: 'module' })
    worker.onmessage = ({ data }: MessageEvent<LayoutReply>) => setLaid({ shape, positions: data.positions })
    worker.postMessage({ number: 0, nodes, edges } satisfies LayoutRequest)
    return () => worker.terminate()
  }, [shape])
  return laid?.positions
}
