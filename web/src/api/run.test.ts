import { afterEach, describe, expect, it, vi } from 'vitest'

import type { Run, Task } from './client'
import { loadRun, shareTasks } from './run'

const task = (number: number, more: Partial<Task> = {}): Task => ({
  number, status: 'queued', reason: '', pool: 'default', executor: '', attempt: 1, timed_out: false, depends: [{ task: 'x', on: ['success'] }],
  outputs: {}, annotations: {}, steps: [{ name: 's', type: 'run', status: 'not_started' }], ...more,
})
const run = (tasks: Record<string, Task>): Run => ({ id: 'r', tasks } as unknown as Run)

afterEach(() => vi.unstubAllGlobals())

describe('shareTasks', () => {
  it('keeps the tasks that are equal, and the dependencies of the others', () => {
    const known = run({ a: task(0), b: task(1) })
    const next = shareTasks(known, run({ a: task(0), b: task(1, { status: 'running' }), c: task(2) }))
    expect(next.tasks!.a).toBe(known.tasks!.a)
    expect(next.tasks!.b).not.toBe(known.tasks!.b)
    expect(next.tasks!.b!.status).toBe('running')
    expect(next.tasks!.b!.depends).toBe(known.tasks!.b!.depends)
    expect(Object.keys(next.tasks!)).toEqual(['a', 'b', 'c'])
  })
  it('sees fields that are gone, new or deeper', () => {
    const known = run({ a: task(0, { ended_at: 't' }), b: task(1), c: task(2), d: task(3, { ended_at: undefined }) })
    const next = shareTasks(known, run({
      a: task(0), b: task(1, { ended_at: 't' }), c: task(2, { steps: [{ name: 's', type: 'run', status: 'running' }] }), d: task(3),
    }))
    expect(['a', 'b', 'c', 'd'].map((name) => next.tasks![name] === known.tasks![name])).toEqual([false, false, false, true])
  })
})

describe('loadRun', () => {
  it('asks only for a changed run, and keeps the known one otherwise', async () => {
    const asked: (string | null)[] = []
    const answers = [
      new Response(JSON.stringify(run({ a: task(0) })), { headers: { ETag: '"1"', 'Content-Type': 'application/json' } }),
      new Response(null, { status: 304 }),
      new Response(JSON.stringify({ code: 'not_found', detail: 'no such run' }), { status: 404, headers: { 'Content-Type': 'application/problem+json' } }),
    ]
    vi.stubGlobal('fetch', (_: string, init: RequestInit) => {
      asked.push(new Headers(init.headers).get('If-None-Match'))
      return Promise.resolve(answers.shift())
    })
    const first = await loadRun('r', undefined)
    expect(await loadRun('r', first)).toBe(first)
    await expect(loadRun('r', { ...first })).rejects.toThrow('no such run')
    // A run that events changed has no version of the gateway's.
    expect(asked).toEqual([null, '"1"', null])
  })
})
