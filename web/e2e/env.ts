import { accessSync, constants } from 'node:fs'
import { resolve } from 'node:path'

const root = resolve(import.meta.dirname, '../..')

/** Where the programs are: `make build` writes them to bin/. */
export const binaries = resolve(process.env.DROVER_TEST_BINARIES ?? resolve(root, 'bin'))

/** Pictures of failures are written here. */
export const failures = resolve(root, '.bin/web-test')

/** The browser: that of DROVER_TEST_CHROMIUM, or one that is installed. */
export const chromiumPath = [process.env.DROVER_TEST_CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(
  (path): path is string => {
    if (!path) return false
    try {
      accessSync(path, constants.X_OK)
      return true
    } catch {
      return false
    }
  },
)

/** How long a test waits for a condition, in milliseconds: it is there at last, however slow the machine is, or the test has failed. */
export const patience = 100_000

/** missing returns why no browser test can run, or undefined. It throws if DROVER_REQUIRE names the browser. */
export function missing(): string | undefined {
  if (chromiumPath) return undefined
  const text = 'no Chromium is installed: apt-get install chromium, or set DROVER_TEST_CHROMIUM to the path of one'
  if ((process.env.DROVER_REQUIRE ?? '').split(',').includes('browser')) throw new Error(`a browser is required but ${text}`)
  return text
}
