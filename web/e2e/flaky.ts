import { mkdirSync, writeFileSync } from 'node:fs'
import type { Reporter, TestCase } from 'vitest/node'

const folder = new URL('../../.bin/test/web/flaky/', import.meta.url)

/** Notes the tests that failed at first and passed when they ran again, as tools/test.sh does for those in Go. */
export default class Flaky implements Reporter {
  onTestCaseResult(test: TestCase) {
    const runs = test.diagnostic()
    if (!runs?.flaky) return
    const name = `web/${test.module.relativeModuleId} > ${test.fullName}`
    const line = `FLAKY ${name}: failed ${runs.retryCount} of ${runs.retryCount + 1} times`
    const errors = (test.result().errors ?? []).map(error => `${error.stack ?? error.message}\n`)
    mkdirSync(folder, { recursive: true })
    writeFileSync(new URL(`${name.replaceAll(/[^\w.-]+/g, '_')}.log`, folder), `${line}\n${errors.join('')}`)
    console.log(line)
  }
}
