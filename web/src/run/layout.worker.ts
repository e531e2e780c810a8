import ELK from 'elkjs/lib/elk-api.js'
import elkWorkerUrl from 'elkjs/lib/elk-worker.min.js?url'

// elkjs runs in a worker of its own; this one only translates.
const elk = new ELK({ workerUrl: elkWorkerUrl })

export interface LayoutRequest {
  number: number
  nodes: string[]
  edges: { from: string; to: string }[]
}

export interface LayoutReply {
  number: number
  positions: Record<string, { x: number; y: number }>
}

self.onmessage = async ({ data }: MessageEvent<LayoutRequest>) => {
  const laid = await elk.layout({
    id: 'run',
    layoutOptions: {
      'elk.algorithm': 'layered', 'elk.direction': 'RIGHT', 'elk.spacing.nodeNode': '18', 'elk.layered.spacing.nodeNodeBetweenLayers': '70',
      'elk.layered.thoroughness': '3',
    },
    children: data.nodes.map((id) => ({ id, width: 210, height: 52 })),
    edges: data.edges.map((e, i) => ({ id: String(i), sources: [e.from], targets: [e.to] })),
  })
  const reply: LayoutReply = { number: data.number, positions: {} }
  for (const n of laid.children ?? []) reply.positions[n.id] = { x: n.x ?? 0, y: n.y ?? 0 }
  self.postMessage(reply)
}
