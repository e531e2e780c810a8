import type { TestProject } from 'vitest/node'

import { Drover } from './drover'
import { binaries, missing } from './env'

declare module 'vitest' {
  interface ProvidedContext {
    server: SharedServer
    skip: string
  }
}

export interface SharedServer {
  url: string
  token: string
  /** The address of its Temporal server. */
  temporal: string
  /** Its directory, which is removed at its end. */
  dir: string
}

/** The server that all tests share, except those that kill it. */
export default async function setup(project: TestProject) {
  const reason = missing()
  project.provide('skip', reason ?? '')
  project.provide('server', { url: '', token: '', temporal: '', dir: '' })
  if (reason) {
    console.log(`the browser tests are skipped: ${reason}`)
    return undefined
  }
  const drover = await Drover.start({ DROVER_FLEET__PLUGIN_PATH: binaries })
  const { url, token, temporal, dir } = drover
  project.provide('server', { url, token, temporal, dir })
  return () => drover.stop()
}
