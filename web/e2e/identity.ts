import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'

import { freeAddress, until } from './drover'

/** Identity is the OpenID Connect provider test/identity. Its users are id1 and id2. */
export class Identity {
  private readonly dir = mkdtempSync(join(tmpdir(), 'drover-identity-'))
  private process?: ChildProcess

  private constructor(private readonly address: string) {}

  /** reserve returns a provider that is not started: it must know the address of the gateway, and the gateway its. */
  static async reserve(): Promise<Identity> {
    return new Identity(await freeAddress())
  }

  get url() {
    return `http://${this.address}/`
  }

  /** settings are those of its gateway. */
  get settings(): Record<string, string> {
    const secret = join(this.dir, 'secret')
    writeFileSync(secret, 'secret\n', { mode: 0o600 })
    return {
      DROVER_GATEWAY__OIDC__ISSUER: this.url, DROVER_GATEWAY__OIDC__CLIENT_ID: 'drover', DROVER_GATEWAY__OIDC__CLIENT_SECRET_FILE: secret,
      DROVER_GATEWAY__OIDC__SCOPES: 'profile,email,offline_access', DROVER_GATEWAY__OIDC__NAME: 'Example',
    }
  }

  /** start builds and starts it. It sends browsers back to the gateway. */
  async start(gateway: string) {
    const program = join(this.dir, 'identity')
    await promisify(execFile)('go', ['build', '-o', program, '.'], { cwd: resolve(import.meta.dirname, '../../test/identity') })
    this.process = spawn(program, ['-with-input', '-listen', this.address, '-redirect', `${gateway}/login/callback`], { stdio: ['pipe', 'ignore', 'inherit'] })
    await until('the provider', async () => {
      const status = await fetch(`${this.url}.well-known/openid-configuration`).then((r) => r.status, String)
      return { done: status === 200 || undefined, state: String(status) }
    })
  }

  /** setGroups sets the groups of a user. */
  async setGroups(user: string, groups: string[]) {
    const answer = await fetch(`${this.url}control/groups/${user}`, { method: 'POST', body: JSON.stringify(groups) })
    if (!answer.ok) throw new Error(`groups of ${user}: ${answer.status}`)
  }

  async stop() {
    if (this.process?.exitCode === null && this.process.kill()) await once(this.process, 'exit')
    rmSync(this.dir, { recursive: true, force: true })
  }
}
