import { expect, test } from 'vitest'

import type { Run, Task } from '../api/client'
import { roles, type Role, type Session } from '../lib/permissions'
import { hintsOf as hintsFor, linesOf as linesFor, waitsOf } from './explain'

const task = (number: number, t: Partial<Task>): Task => ({
  number, status: 'not_started', reason: '', pool: 'linux', executor: '', attempt: 0, timed_out: false, depends: [], outputs: {}, annotations: {}, steps: [], ...t,
})
const run = (r: Partial<Run>): Run => ({
  id: 'r1', counter: 1, name: 'n', group: '/a/b', changegroups: [], priority: 3, admission: 'auto', phase: 'running', result: 'unknown', reason: '', annotations: {},
  environment: {}, secret_names: [], created_at: '2026-01-01T00:00:00Z', ...r,
})
const all: Session = { subject: 'ana', scopes: ['admin'] }
const hintsOf = (r: Run, session = all) => hintsFor(r, session)
const linesOf = (r: Run, session = all) => linesFor(r, session)
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

test('each kind of waits has one line, and a run that only works off its graph has none', () => {
  const queued = (n: number, pool: string) => task(n, { status: 'queued', pool, reason: `all slots of pool ${pool} are in use` })
  const dependents = Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`t${i}`, task(i, { reason: 'waits for build' })]))
  expect(linesOf(run({ tasks: { ...dependents, build: task(50, { status: 'running' }) } }))).toEqual([])
  expect(linesOf(run({ tasks: { ...dependents, a: queued(41, 'linux'), b: queued(42, 'linux'), c: queued(43, 'mac'), gate: task(44, { status: 'waiting_approval' }) } }))).toEqual([
    { status: 'waiting_approval', text: '', task: 'gate', approve: ['gate'] },
    { status: 'queued', text: '2 tasks: all slots of pool linux are in use' },
    { status: 'queued', text: 'all slots of pool mac are in use', task: 'c' },
  ])
  expect(linesOf(run({ tasks: Object.fromEntries(Array.from({ length: 9 }, (_, i) => [`q${i}`, queued(i, `p${i}`)])) })).map((l) => l.text).at(-1)).toBe('tasks of 6 more pools')
  expect(linesOf(run({ phase: 'queued', admission: 'manual' }))).toEqual([{ status: 'queued', text: 'The run starts when a user starts it.', start: true }])
})

test('tasks that wait for different change groups have a line each', () => {
  const waits = (n: number, reason: string, ...names: string[]) => task(n, { status: 'waiting_changegroup', reason, changegroups: names.map((name) => ({ name, units: 1 })) })
  const held = (group: string, position: number) => `change group ${group}: position ${position} in queue, 1 of 1 slots held by x`
  const tasks = {
    a: waits(0, `waits for ${held('g', 10)}`, 'g'), b: waits(1, `waits for ${held('g', 9)}`, 'g'), c: waits(2, `waits for ${held('h', 1)}`, 'h'),
    d: waits(3, `waits for ${held('g', 11)}; ${held('h', 2)}`, 'g', 'h'),
  }
  expect(linesOf(run({ tasks }))).toEqual([
    { status: 'waiting_changegroup', text: `2 tasks: waits for ${held('g', 9)}` },
    { status: 'waiting_changegroup', text: `waits for ${held('h', 1)}`, task: 'c' },
    { status: 'waiting_changegroup', text: `waits for ${held('g', 11)}; ${held('h', 2)}`, task: 'd' },
  ])
  const more = { i: waits(4, `waits for ${held('i', 1)}`, 'i'), q: task(5, { status: 'queued', reason: 'all slots are in use' }) }
  expect(linesOf(run({ tasks: { ...tasks, ...more } })).at(-1)).toEqual({ status: 'waiting_changegroup', text: 'tasks of 1 more change group and 1 more pool' })
  expect(commands(run({ tasks }))).toEqual(['drover changegroups list g h', 'drover changegroups set NAME --max-running N'])
  expect(commands(run({ tasks: { c: tasks.c } }))[1]).toBe('drover changegroups set h --max-running N')
})

test('a failed run has a line for each of its first failures', () => {
  const tasks = Object.fromEntries([0, 1, 2, 3, 4].map((n) => [`t${n}`, task(n, { status: 'failed', executor: n === 2 ? '' : 'e', reason: `exit code ${n}`, allow_failure: n === 0 })]))
  expect(linesOf(run({ phase: 'finished', result: 'failed', tasks }))).toEqual([
    { status: 'failed', text: 'exit code 1', task: 't1', logs: 't1' }, { status: 'failed', text: 'exit code 2', task: 't2' }, { status: 'failed', text: 'exit code 3', task: 't3', logs: 't3' },
    { status: 'failed', text: '1 task more' },
  ])
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

test('each role has the commands that it may use', () => {
  const waits = (reason: string) => run({ tasks: { t: task(1, { status: 'queued', reason }), gate: task(2, { status: 'waiting_approval' }) } })
  const runs = [
    run({ phase: 'queued', admission: 'manual' }),
    run({ phase: 'queued', changegroups: ['prod'], reason: 'waits for change group prod: position 2 in queue' }),
    run({ phase: 'queued', reason: 'waits for change group group:/a/b: position 1 in queue' }),
    waits('2 of at most 2 tasks of pool linux are running; position 1 in queue'),
    waits('no executor of pool linux is online; fleet big: it is paused'),
    waits('all executors of pool linux are draining'),
    waits('all 8 slots of pool linux are in use; position 3 in queue'),
    run({ phase: 'finished', result: 'failed', tasks: { t: task(1, { status: 'failed', executor: 'e' }) } }),
  ]
  const commandsOf = (session: Session) => [...new Set(runs.flatMap((r) => hintsOf(r, session).map((h) => h.command?.split(' ').slice(1, 3).join(' ')).filter((c) => c !== undefined)))].sort().join(', ')
  const offered = (group: string) => Object.fromEntries(roles.map((role: Role) => [role, commandsOf({ subject: 'ana', scopes: [], bindings: [{ role, groups: [group] }] })]))
  const inGroup = { view: 'logs r1, pools get', submit: 'logs r1, pools get, runs restart, runs start', approve: 'logs r1, pools get, runs approve' }
  const operates = 'logs r1, pools get, runs approve, runs restart, runs start'
  expect(offered('/a/**')).toEqual({ viewer: inGroup.view, submitter: inGroup.submit, approver: inGroup.approve, operator: operates, admin: operates })
  const seesAll = (commands: string) => `changegroups list, ${commands}`
  const operatesAll = 'changegroups list, changegroups set, executors resume, fleets resume, logs r1, pools get, runs approve, runs restart, runs start, start executor'
  const administersAll = operatesAll.replace('pools get, ', 'pools get, pools set, ')
  expect(offered('/**')).toEqual({ viewer: seesAll(inGroup.view), submitter: seesAll(inGroup.submit), approver: seesAll(inGroup.approve), operator: operatesAll, admin: administersAll })
})

test('a hint that is not for the user is not the line of the run either', () => {
  const r = run({ phase: 'queued', changegroups: ['prod'], reason: 'waits for change group prod: position 2 in queue' })
  const viewer: Session = { subject: 'ana', scopes: [], bindings: [{ role: 'viewer', groups: ['/a/**'] }] }
  expect(linesOf(r)).toHaveLength(1)
  expect(linesOf(r, viewer)).toEqual([])
  expect(linesOf(run({ phase: 'queued', admission: 'manual' }), viewer), 'the button says what the user lacks').toMatchObject([{ start: true }])
})

test('the command to approve names what waits for the user', () => {
  const gate = (number: number, from?: string[], approved_by: string[] = []) => task(number, { status: 'waiting_approval', approval: { approvers: 2, approved_by, from } as Task['approval'] })
  const r = run({ tasks: { mine: gate(1, ['ana', 'dan']), others: gate(2, ['dan']), given: gate(3, undefined, ['ana']) } })
  expect(hintsOf(r)).toMatchObject([{ approve: ['mine'], command: 'drover runs approve r1 mine' }])
  expect(hintsOf(r, { subject: 'eve', scopes: ['read'] })).toEqual([])
})
