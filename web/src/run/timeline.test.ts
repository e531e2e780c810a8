import { describe, expect, it, test } from 'vitest'

import type { Task } from '../api/client'
import { approvalsOf, criticalPath, partsOf, rowsOf, tickLabel, ticksOf } from './timeline'

const at = (seconds: number) => new Date(1_000_000_000_000 + 1000 * seconds).toISOString()
const millis = (seconds: number) => 1_000_000_000_000 + 1000 * seconds

const task = (number: number, queued: number | undefined, started?: number, ended?: number, more: Partial<Task> = {}): Task => ({
  number, status: ended === undefined ? (started === undefined ? 'queued' : 'running') : 'success', reason: '', pool: 'default', executor: '', attempt: 1, timed_out: false,
  depends: [], outputs: {}, annotations: {}, steps: [],
  queued_at: queued === undefined ? undefined : at(queued), started_at: started === undefined ? undefined : at(started), ended_at: ended === undefined ? undefined : at(ended), ...more,
})
const on = (...names: string[]) => ({ depends: names.map((name) => ({ task: name, on: ['success' as const] })) })

describe('rowsOf', () => {
  it('has what was queued, in that order', () => {
    const rows = rowsOf({ b: task(0, 5, 6, 7), a: task(1, 0, 1), c: task(2, undefined), d: task(3, 5) }, millis(9), millis(0))
    expect(rows.map((r) => [r.name, r.from, r.to])).toEqual([['a', millis(0), millis(9)], ['b', millis(5), millis(7)], ['d', millis(5), millis(9)]])
  })
})

describe('partsOf', () => {
  const parts = (of: Task, now = 20) => partsOf(rowsOf({ a: of }, millis(now), millis(0))[0]!).map((p) => [p.kind, (p.from - millis(0)) / 1000, (p.to - millis(0)) / 1000, p.step])

  it('has the queue and the stages', () => {
    const steps = [{ name: 'make', type: 'run', status: 'success' as const }, { name: 'save', type: 'save_artifacts', status: 'success' as const }]
    const stages = [
      { stage: 'prepare' as const, started_at: at(2), ended_at: at(4) },
      { stage: 'step' as const, step: 0, started_at: at(4), ended_at: at(8) },
      { stage: 'transfer' as const, step: 1, started_at: at(8), ended_at: at(9) },
    ]
    expect(parts(task(0, 0, 2, 10, { steps, stages }))).toEqual([['queue', 0, 2, undefined], ['prepare', 2, 4, undefined], ['step', 4, 8, 'make'], ['transfer', 8, 9, 'save']])
  })
  it('lasts until now while a task is open', () => {
    expect(parts(task(0, 0), 7)).toEqual([['queue', 0, 7, undefined]])
    expect(parts(task(0, 0, 3), 7)).toEqual([['queue', 0, 3, undefined], ['run', 3, 7, undefined]])
    expect(parts(task(0, 0, 3, undefined, { stages: [{ stage: 'prepare', started_at: at(3) }] }), 7)).toEqual([['queue', 0, 3, undefined], ['prepare', 3, 7, undefined]])
  })
  it('stays within the task if the clock of the executor differs', () => {
    const stages = [{ stage: 'prepare' as const, started_at: at(2), ended_at: at(3) }, { stage: 'step' as const, step: 0, started_at: at(100), ended_at: at(104) }]
    for (const p of partsOf(rowsOf({ a: task(0, 0, 2, 10, { stages, steps: [{ name: '', type: 'run', status: 'failed' }] }) }, millis(20), millis(0))[0]!)) {
      expect(p.from).toBeGreaterThanOrEqual(millis(0))
      expect(p.to).toBeLessThanOrEqual(millis(10))
      expect(p.to).toBeGreaterThanOrEqual(p.from)
    }
  })
})

test('a failed step of a task that may fail is told from another', () => {
  const stages = [{ stage: 'step' as const, step: 0, started_at: at(2), ended_at: at(4) }]
  const failed = (more: Partial<Task>) => partsOf(rowsOf({ a: task(0, 0, 2, 10, { status: 'failed', steps: [{ name: '', type: 'run', status: 'failed' }], ...more }) }, millis(20), millis(0))[0]!).map((p) => p.failed).filter(Boolean)
  expect(failed({ stages })).toEqual(['failed'])
  expect(failed({ stages, allow_failure: true })).toEqual(['warnings'])
  expect(failed({ allow_failure: true })).toEqual(['warnings'])
})

describe('a task that waits for an approval', () => {
  const tasks = { 'a[0]': task(0, 0, 0, 2), 'a[1]': task(1, 0, 0, 3), b: task(2, undefined, undefined, undefined, { status: 'waiting_approval', ...on('a') }), c: task(3, undefined, undefined, undefined, { status: 'waiting_approval' }) }

  it('waits from the end of its dependencies, or from the begin', () => {
    const rows = rowsOf(tasks, millis(60), millis(0))
    expect(rows.map((r) => [r.name, r.from, r.to])).toEqual([['a[0]', millis(0), millis(2)], ['a[1]', millis(0), millis(3)], ['c', millis(0), millis(60)], ['b', millis(3), millis(60)]])
    expect(partsOf(rows[3]!)).toEqual([{ kind: 'approval', from: millis(3), to: millis(60) }])
  })
  it('is what the run waits for', () => {
    const { c: _, ...others } = tasks
    expect(criticalPath(others, millis(60))).toEqual(['a[1]', 'b'])
  })
})

test('a task that waits for its change group has no other part, and is what the run waits for', () => {
  const tasks = { a: task(0, 0, 0, 2), b: task(1, undefined, undefined, undefined, { status: 'waiting_changegroup', ...on('a') }) }
  const rows = rowsOf(tasks, millis(60), millis(0))
  expect(rows.map((r) => r.name)).toEqual(['a', 'b'])
  expect(partsOf(rows[1]!)).toEqual([{ kind: 'slots', from: millis(2), to: millis(60) }])
  expect(criticalPath(tasks, millis(60))).toEqual(['a', 'b'])
})

describe('a task with an approval and change groups', () => {
  const gated = { ...on('a'), approval: { approvers: 2, approved_by: ['ana', 'ben'] }, changegroups: [{ name: 'g', units: 1 }] }
  const actions = [5, 9].map((s) => ({ action: 'approve' as const, actor: 'ana', time: at(s), task: 'b' }))
  const parts = (b: Task, now: number) => {
    const rows = rowsOf({ a: task(0, 0, 0, 2), b }, millis(now), millis(0), approvalsOf({ actions: [...actions, { action: 'approve', actor: 'ana', time: at(30), task: 'other' }] }))
    return partsOf(rows[1]!).map((p) => [p.kind, (p.from - millis(0)) / 1000, (p.to - millis(0)) / 1000])
  }

  it('waits for its slots from its last approval', () => {
    expect(parts(task(1, undefined, undefined, undefined, { status: 'waiting_approval', ...gated }), 8)).toEqual([['approval', 2, 8]])
    expect(parts(task(1, undefined, undefined, undefined, { status: 'waiting_changegroup', ...gated }), 20)).toEqual([['approval', 2, 9], ['slots', 9, 20]])
  })
  it('shows both when it is queued and when it has ended', () => {
    expect(parts(task(1, 20, undefined, undefined, gated), 23)).toEqual([['approval', 2, 9], ['slots', 9, 20], ['queue', 20, 23]])
    expect(parts(task(1, 20, 22, 30, gated), 40)).toEqual([['approval', 2, 9], ['slots', 9, 20], ['queue', 20, 22], ['run', 22, 30]])
  })
  it('has only the time of its newest attempt after a retry', () => {
    expect(parts(task(1, 40, 41, 50, { ...gated, attempt: 2 }), 60)).toEqual([['queue', 40, 41], ['run', 41, 50]])
  })
  it('was kept from an older run', () => {
    const rows = rowsOf({ b: task(1, 20, 22, 30, gated) }, millis(90), millis(50))
    expect(rows[0]!.from).toBe(millis(20))
  })
})

describe('criticalPath', () => {
  it('follows the dependency that ended last', () => {
    const tasks = { a: task(0, 0, 0, 2), b: task(1, 0, 0, 5), c: task(2, 5, 5, 6, on('a', 'b')), d: task(3, 2, 2, 3, on('a')) }
    expect(criticalPath(tasks, millis(9))).toEqual(['b', 'c'])
  })
  it('goes through the slowest of a matrix', () => {
    const tasks = { 'm[0]': task(0, 0, 0, 2), 'm[1]': task(1, 0, 0, 4), end: task(2, 4, 4, 5, on('m')) }
    expect(criticalPath(tasks, millis(9))).toEqual(['m[1]', 'end'])
  })
  it('goes through the items of a foreach', () => {
    const tasks = { plan: task(0, 0, 0, 1), f: task(1, 1, 1, 1, on('plan')), 'f[0]': task(2, 1, 1, 9, on('plan')), end: task(3, 9, 9, 10, on('f')) }
    expect(criticalPath(tasks, millis(20))).toEqual(['plan', 'f[0]', 'end'])
  })
  it('leaves skipped tasks and unknown dependencies out', () => {
    const tasks = { a: task(0, 0, 0, 1), s: task(1, 8, undefined, 8, { status: 'skipped' }), b: task(2, 2, 2, 3, on('a', 's', 'gone')) }
    expect(criticalPath(tasks, millis(9))).toEqual(['a', 'b'])
  })
  it('follows open tasks', () => {
    expect(criticalPath({ a: task(0, 0, 0, 1), b: task(1, 1, undefined, undefined, on('a')) }, millis(9))).toEqual(['a', 'b'])
  })
  it('leads from a task at the end to the last of the others', () => {
    const tasks = { a: task(0, 0, 0, 4), b: task(1, 0, 0, 3), clean: task(2, 4, 4, 5, { finally: true }) }
    expect(criticalPath(tasks, millis(9))).toEqual(['a', 'clean'])
  })
  it('ends for cycles, which no run has, and is empty before anything was queued', () => {
    expect(criticalPath({ a: task(0, 0, 0, 1, on('b')), b: task(1, 0, 0, 2, on('a')) }, millis(9))).toEqual(['a', 'b'])
    expect(criticalPath({ a: task(0, undefined) }, millis(9))).toEqual([])
  })
})

describe('ticksOf', () => {
  it('has round distances, and not too many', () => {
    expect(ticksOf(10_000, 6)).toEqual([0, 2000, 4000, 6000, 8000, 10_000])
    for (const length of [1, 7, 950, 61_000, 3_700_000, 90_000_000, 4e9]) {
      expect(ticksOf(length, 8).length).toBeLessThanOrEqual(9)
    }
  })
  it('has short labels', () => {
    expect([0, 500, 2000, 60_000, 90_000, 3_600_000, 90_000_000].map(tickLabel)).toEqual(['0', '500 ms', '2 s', '1 min', '1 min 30 s', '1 h', '1 d 1 h'])
  })
})
