import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import type { components } from '../src/api/schema.gen'
import { binaries, patience } from './env'

type Run = components['schemas']['Run']
type Phase = components['schemas']['Phase']

/** until waits for a condition, and fails with the last state that it returned. */
export async function until<T>(what: string, condition: () => Promise<{ done?: T; state: string }> | { done?: T; state: string }, timeout = patience): Promise<T> {
  const deadline = Date.now() + timeout
  for (let pause = 20; ; pause = Math.min(500, pause * 2)) {
    const { done, state } = await condition()
    if (done !== undefined) return done
    if (Date.now() > deadline) throw new Error(`gave up waiting for ${what}; last state: ${state}`)
    await new Promise((resolve) => setTimeout(resolve, pause))
  }
}

/** Refused is the error of a call that the gateway refuses. */
class Refused extends Error {
  constructor(readonly status: number, message: string) {
    super(message)
  }
}

/** Client calls the API with a bearer token. */
export class Client {
  url: string
  token: string

  constructor({ url, token }: { url: string; token: string }) {
    this.url = url
    this.token = token
  }

  async get<T>(path: string): Promise<T> {
    return this.call<T>('GET', path)
  }

  async call<T>(method: string, path: string, body?: unknown): Promise<T> {
    const response = await fetch(this.url + path, { method, headers: this.headers(), body: body === undefined ? undefined : JSON.stringify(body) })
    const text = await response.text()
    if (!response.ok) throw new Refused(response.status, `${method} ${path}: ${response.status} ${text}`)
    return (text === '' ? undefined : JSON.parse(text)) as T
  }

  async submit(spec: object): Promise<Run> {
    return this.call<Run>('POST', '/api/v1/runs', spec)
  }

  /** await returns the run when it has one of the phases. */
  async await(id: string, phases: Phase[] = ['finished']): Promise<Run> {
    return until(`run ${id}`, async () => {
      const run = await this.get<Run>(`/api/v1/runs/${id}`)
      return { done: phases.includes(run.phase) ? run : undefined, state: `${run.phase}, ${run.reason}` }
    })
  }

  async awaitTask(id: string, task: string, status: components['schemas']['Status']): Promise<void> {
    await until(`task ${task} of run ${id}`, async () => {
      const found = (await this.get<Run>(`/api/v1/runs/${id}`)).tasks?.[task]
      return { done: found?.status === status || undefined, state: `${found?.status}, ${found?.reason}` }
    })
  }

  protected headers() {
    return { authorization: `Bearer ${this.token}`, 'content-type': 'application/json' }
  }
}

/** freeAddress returns an address of loopback with a port that was free. */
export async function freeAddress(): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return `127.0.0.1:${port}`
}

/** Drover is a `drover dev` with a data directory of its own. */
export class Drover extends Client {
  readonly dir = mkdtempSync(join(tmpdir(), 'drover-web-'))
  /** The address of its Temporal server. */
  temporal = ''
  private process?: ChildProcess

  /** env are further settings: DROVER_SECTION__KEY. */
  private constructor(private readonly env: Record<string, string>) {
    super({ url: '', token: '' })
  }

  static async start(env: Record<string, string> = {}): Promise<Drover> {
    const drover = new Drover(env)
    drover.temporal = await freeAddress()
    await drover.launch('127.0.0.1:0')
    return drover
  }

  /** again starts it after kill, with the same address and data. */
  async again() {
    await this.launch(new URL(this.url).host)
  }

  /** kill ends it as a crash does. The tasks continue. */
  async kill() {
    const gone = once(this.process!, 'exit')
    this.process!.kill('SIGKILL')
    await gone
  }

  /** stop ends what runs, then the process, and removes the data. */
  async stop() {
    try {
      const { fleets } = await this.get<{ fleets: { name: string }[] }>('/api/v1/fleets')
      const { runs } = await this.get<{ runs: Run[] }>('/api/v1/runs?phase=running&phase=queued&limit=100')
      for (const { id, phase } of runs) {
        try {
          if (phase === 'queued') await this.call('POST', `/api/v1/runs/${id}/cancel`, {})
          else await this.call('POST', `/api/v1/runs/${id}/stop`, { force: true })
        } catch (error) {
          if (!(error instanceof Refused && error.status === 409)) throw error // it has ended by itself
        }
      }
      for (const run of runs) await this.await(run.id, ['finished', 'cancelled', 'setup_error'])
      for (const { name } of fleets) await this.call('DELETE', `/api/v1/fleets/${name}`)
      await until('the end of the fleets', async () => {
        const left = (await this.get<{ fleets: object[] }>('/api/v1/fleets')).fleets
        return { done: left.length === 0 || undefined, state: JSON.stringify(left) }
      }, 180_000) // an instance may drain for a minute, and then stops
    } finally {
      const gone = once(this.process!, 'exit')
      if (this.process!.exitCode === null && this.process!.kill('SIGTERM')) await gone
      rmSync(this.dir, { recursive: true, force: true, maxRetries: 20 }) // its tasks may still write
    }
  }

  private async launch(http: string) {
    const log = join(this.dir, 'dev.log')
    const out = openSync(log, 'w')
    const args = ['dev', '--data-dir', join(this.dir, 'data'), '--http', http, '--temporal', this.temporal, '--temporal-ui', '', '--executor', 'shell', '--slots', '4']
    this.process = spawn(join(binaries, 'drover'), args, {
      stdio: ['ignore', out, out],
      env: { PATH: process.env.PATH, HOME: this.dir, TMPDIR: this.dir, USER: process.env.USER ?? 'drover', DROVER_CONTEXT: join(this.dir, 'context.yaml'), ...this.env },
    })
    closeSync(out)
    let failed: Error | undefined
    this.process.on('error', (error) => { failed = error })
    this.url = await until(`${binaries}/drover dev`, () => {
      if (failed) throw new Error(`${failed.message}: make build`)
      const text = readFileSync(log, 'utf8')
      if (this.process!.exitCode !== null) throw new Error(`drover dev ended: ${text}`)
      return { done: /^ready/m.test(text) ? /^HTTP API *(http[^ \n]*)/m.exec(text)?.[1] : undefined, state: text.slice(-2000) }
    })
    this.token = readFileSync(join(this.dir, 'data', 'token'), 'utf8').trim()
  }
}
