import { place, type Placement } from './layout'

export interface LayoutRequest {
  layers: Int32Array
  edges: Int32Array
}

export type LayoutReply = Placement

self.onmessage = ({ data }: MessageEvent<LayoutRequest>) => {
  self.postMessage(place(data.layers, data.edges) satisfies LayoutReply)
}
