import type { TestProject } from 'vitest/node'

import { Drover } from './drover'
import { missing } from './env'

declare module 'vitest' {
  interface ProvidedContext {
    server: { url: string; token: string }
    skip: string
  }
}

/** The server that all tests share, except those that kill it. */
export default async function setup(project: TestProject) {
  const reason = missing()
  project.provide('skip', reason ?? '')
  project.provide('server', { url: '', token: '' })
  if (reason) {
    console.log(`the browser tests are skipped: ${reason}`)
    return undefined
  }
  const drover = await Drover.start()
  project.provide('server', { url: drover.url, token: drover.token })
  return () => drover.stop()
}
