import { createServer, request, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'

/** PathProxy is a reverse proxy on loopback that passes requests on, with their path and Host, to the server of their base path. */
export class PathProxy {
  /** The paths for which there is no server. */
  readonly strays: string[] = []
  private readonly server: Server
  private readonly servers = new Map<string, string>()

  private constructor() {
    this.server = createServer((from, answer) => {
      const path = from.url ?? '/'
      const to = [...this.servers].find(([base]) => path === base || path.startsWith(`${base}/`))?.[1]
      if (to === undefined) {
        this.strays.push(`${from.method} ${path}`)
        answer.writeHead(404).end('not Drover')
        return
      }
      const onward = request(new URL(path, to), { method: from.method, headers: from.headers }, (reply) => {
        answer.writeHead(reply.statusCode!, reply.headers)
        answer.flushHeaders() // a stream may have no body for long
        reply.pipe(answer)
      })
      onward.on('error', () => answer.destroy())
      answer.on('close', () => onward.destroy())
      from.pipe(onward)
    })
  }

  static async start(): Promise<PathProxy> {
    const proxy = new PathProxy()
    await new Promise<void>((done) => { proxy.server.listen(0, '127.0.0.1', done) })
    return proxy
  }

  /** add passes requests below a base path on, and returns its URL. */
  add(base: string, to: string): string {
    this.servers.set(base, to)
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}${base}`
  }

  async stop() {
    this.server.closeAllConnections()
    await new Promise((done) => { this.server.close(done) })
  }
}
