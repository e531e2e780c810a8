import { once } from 'node:events'
import { createServer, request, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

import { Client } from './drover'

/** A Fault answers a request in place of the gateway. It returns false for those that it leaves to the gateway. */
export type Fault = (path: string, response: ServerResponse) => boolean

/** html is the answer of a proxy that knows nothing of the gateway's API. */
export const html = (status: number, paths = /./): Fault => (path, response) => {
  if (!paths.test(path)) return false
  response.writeHead(status, { 'content-type': 'text/html' }).end(`<!doctype html><title>${status}</title><h1>A proxy answers</h1>`)
  return true
}

/** events answers the event stream with a text, and leaves it open if it is asked to. */
export const events = (text: string | (() => Iterable<string>), { open = false, type = 'text/event-stream' } = {}): Fault => (path, response) => {
  if (!path.startsWith('/api/v1/events')) return false
  response.writeHead(200, { 'content-type': type })
  for (const part of typeof text === 'string' ? [text] : text()) response.write(part)
  if (!open) response.end()
  return true
}

/** FaultyProxy is between the browser and a gateway, and can fail as proxies do. */
export class FaultyProxy extends Client {
  fault?: Fault
  /** The gateway gets requests of these paths, and its answers wait. */
  late?: { paths: RegExp; until: Promise<void> }
  /** How many requests a fault answered, by their path without the query. */
  readonly faults = new Map<string, number>()
  private readonly server: Server
  private readonly open = new Map<ServerResponse, string>()

  private constructor(private readonly gateway: Client) {
    super({ url: '', token: gateway.token })
    this.server = createServer((incoming, response) => this.serve(incoming, response))
  }

  static async start(gateway: Client): Promise<FaultyProxy> {
    const proxy = new FaultyProxy(gateway)
    proxy.server.listen(0, '127.0.0.1')
    await once(proxy.server, 'listening')
    proxy.url = `http://127.0.0.1:${(proxy.server.address() as AddressInfo).port}`
    return proxy
  }

  /** answers returns how many answers of some paths are not complete. */
  answers(paths: RegExp): number {
    return [...this.open.values()].filter((path) => paths.test(path)).length
  }

  /** cut breaks the connections of the answers that are not complete. */
  cut(paths = /./) {
    for (const [response, path] of this.open) if (paths.test(path)) response.destroy()
  }

  async stop() {
    this.server.close()
    this.server.closeAllConnections()
    await once(this.server, 'close')
  }

  private serve(incoming: IncomingMessage, response: ServerResponse) {
    const path = incoming.url!
    this.open.set(response, path)
    response.on('close', () => this.open.delete(response))
    if (this.fault?.(path, response)) {
      const name = path.split('?')[0]!
      this.faults.set(name, (this.faults.get(name) ?? 0) + 1)
      return
    }
    const outgoing = request(this.gateway.url + path, { method: incoming.method, headers: incoming.headers }, async (answer) => {
      if (this.late?.paths.test(path)) await this.late.until
      if (response.destroyed) return answer.destroy()
      response.writeHead(answer.statusCode!, answer.headers)
      response.flushHeaders()
      answer.pipe(response)
      answer.on('error', () => response.destroy())
    })
    outgoing.on('error', () => {
      if (!response.headersSent) response.writeHead(502, { 'content-type': 'text/html' })
      response.end()
    })
    response.on('close', () => outgoing.destroy())
    incoming.pipe(outgoing)
  }
}
