import { expect, test } from 'vitest'

import type { Run, Task } from '../api/client'
import { hintsOf, waitsOf } from './explain'

const task = (number: number, t: Partial<Task>): Task => ({
  number, status: 'not_started', reason: '', pool: 'linux', executor: '', attempt: 0, timed_out: false, depends: [], outputs: {}, annotations: {}, steps: [], ...t,
})
const run = (r: Partial<Run>): Run => ({
  id: 'r1', counter: 1, name: 'n', group: '/a/b', changegroups: [], priority: 3, admission: 'auto', phase: 'running', result: 'unknown', reason: '', annotations: {},
  environment: {}, secret_names: [], created_at: '2026-01-01T00:00:00Z', ...r,
})
const commands = (r: Run) => hintsOf(r).map((h) => h.command)

test('tasks that wait for others are bounded, and come last', () => {
  const tasks: Record<string, Task> = {}
  for (let i = 0; i < 15; i++) tasks[`t${i}`] = task(i, { reason: 'waits for build' })
  tasks.gate = task(99, { status: 'waiting_approval', reason: 'waits for approval: 0 of 1 given' })
  tasks.done = task(100, { status: 'success', reason: 'old' })
  const { waits, more } = waitsOf(run({ tasks }))
  expect(waits[0]?.task).toBe('gate')
  expect(waits).toHaveLength(11)
  expect(more).toBe(5)
  expect(waitsOf(run({ phase: 'finished', tasks })).waits).toEqual([])
})

test('a queued run is started, or its change groups are shown', () => {
  expect(hintsOf(run({ phase: 'queued', admission: 'manual' }))).toMatchObject([{ action: 'start', command: 'drover runs start r1' }])
  const waits = run({ phase: 'queued', admission: 'manual', changegroups: ['prod', "it's"], reason: 'waits for change group prod: position 2 in queue' })
  expect(commands(waits)[0]).toBe("drover changegroups list prod 'it'\\''s'")
  expect(commands(run({ phase: 'queued', reason: 'waits for change group group:/a/b: position 1 in queue' }))).toEqual(['drover changegroups set group:/a/b --max-running N'])
})

test('a task that waits for approval can be approved here', () => {
  const r = run({ tasks: { 'gate[eu]': task(1, { status: 'waiting_approval' }) } })
  expect(hintsOf(r)).toMatchObject([{ approve: ['gate[eu]'], command: "drover runs approve r1 'gate[eu]'" }])
})

test.each([
  ['no executor of pool linux is online', 'drover start executor --pool linux'],
  ['no executor of pool linux is online; fleet big: it is paused', 'drover fleets resume big'],
  ['all executors of pool linux are draining', 'drover executors resume'],
  ['all 8 slots of pool linux are in use; position 3 in queue, about 2m', '--slots N'],
  ['2 of at most 2 tasks of pool linux are running; position 1 in queue', 'drover pools set linux --max-running'],
  ['no executor of pool linux has label model=a100', 'drover start executor'],
  ['waits for an executor of pool linux', 'drover pools get linux'],
])('%s: %s', (reason, command) => {
  expect(commands(run({ tasks: { t: task(1, { status: 'queued', reason }) } }))[0]).toContain(command)
})

test('a fleet that boots an instance needs no other executor', () => {
  const r = run({ tasks: { t: task(1, { status: 'queued', reason: 'no executor of pool linux is online; instance 2 of fleet gpu is booting (34 s)' }) } })
  expect(commands(r)).toEqual(['drover pools get linux'])
})

test('after a failure the first logs and a restart', () => {
  const tasks = Object.fromEntries([0, 1, 2, 3, 4].map((n) => [`t${n}`, task(n, { status: 'failed', executor: 'e', allow_failure: n === 0 })]))
  const hints = hintsOf(run({ phase: 'finished', result: 'failed', tasks }))
  expect(hints.map((h) => h.logs)).toEqual(['t1', 't2', 't3', undefined])
  expect(hints.at(-1)?.action).toBe('restart-failed')
})
