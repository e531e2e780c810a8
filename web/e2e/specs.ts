import { writeFileSync } from 'node:fs'
import { join } from 'node:path'

import { inject } from 'vitest'

const gates = new Set<Gate>()

/** ownGates makes openGates leave alone the gates that exist already: they are the suite's. */
export const ownGates = () => gates.clear()

/** openGates lets all tasks go that a test left waiting, so that they keep no slot from the next test. */
export function openGates() {
  for (const gate of gates) gate.open()
  gates.clear()
}

/** fresh returns a name that an earlier try of the same test has not used. */
export const fresh = (name: string) => `${name}-${crypto.randomUUID().slice(0, 8)}`

/** A Gate holds tasks until the test opens it. */
export class Gate {
  private readonly file = join(inject('server').dir, fresh('gate'))
  private readonly opened = `[ -e '${this.file}' ]`
  /** A script that waits for the gate. */
  readonly wait = `until ${this.opened}; do sleep 0.1; done`
  /** A script that fails before the gate is open. */
  readonly need = `${this.opened} || { echo the service is down; exit 1; }`
  constructor() {
    gates.add(this)
  }
  open() {
    writeFileSync(this.file, '')
  }
}

/** Runs for the tests and the pictures. They are specifications in JSON. */
export const specs = {
  fanOut: (gate: Gate) => ({
    name: 'fan-out', group: '/web/tests',
    tasks: {
      prepare: { steps: [{ run: 'echo prepared' }] },
      test: { depends: ['prepare'], matrix: { PACKAGE: ['api', 'web', 'docs', 'cli', 'spec', 'run'] }, steps: [{ run: `${gate.wait}; echo "tested $PACKAGE"` }] },
      report: { depends: ['test'], steps: [{ run: 'echo reported' }] },
    },
  }),
  failing: {
    name: 'failing', group: '/web/tests',
    annotations: { commit: '4f2a9c1', branch: 'main' },
    tasks: {
      build: { steps: [{ name: 'compile', run: 'seq -f "compile file %g" 400' }] },
      test: {
        depends: ['build'],
        steps: [
          { name: 'unit tests', run: "seq -f 'ok %g' 120; printf '\\033[31mFAIL: total is 3, want 4\\033[0m\\n'; exit 3" },
          { when: 'always', run: 'mkdir -p out; echo "<h1>report</h1>" > out/index.html; printf \'<testsuite name="sums" tests="2" failures="1"><testcase name="adds" time="0.1"/><testcase name="totals" time="0.2"><failure message="total is 3, want 4">at sum.go:12</failure></testcase></testsuite>\' > out/junit.xml' },
          { when: 'always', save_artifacts: { name: 'report', paths: ['out'], junit: true } },
        ],
      },
      deploy: { depends: ['test'], steps: [{ run: 'echo deployed' }] },
    },
  },
  // It fails until the gate is open.
  flaky: (gate: Gate) => ({
    name: 'flaky', group: '/web/tests',
    tasks: {
      first: { steps: [{ run: 'echo done once' }] },
      second: { depends: ['first'], steps: [{ run: gate.need }] },
    },
  }),
  approval: {
    name: 'release', group: '/web/tests',
    tasks: {
      build: { steps: [{ run: 'echo built' }] },
      release: { depends: ['build'], approval: true, steps: [{ run: 'echo released' }] },
    },
  },
  waits: (gate: Gate) => ({
    name: 'waits', group: '/web/tests',
    tasks: { work: { steps: [{ run: `echo begun; ${gate.wait}; echo ended` }] } },
  }),
}
