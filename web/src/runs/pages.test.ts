import { expect, test } from 'vitest'

import type { Event, Run } from '../api/client'
import { patchPages, readPage } from './pages'

const run = (id: string) => ({ id, phase: 'queued', result: 'unknown', reason: '' }) as Run
const event = (e: Partial<Event>): Event => ({ number: 1, type: 'run', time: '2026-01-01T00:00:00Z', run: 'a', group: '/x/y', ...e })
const data = { pages: [{ runs: [run('a'), run('b')], at: 0 }, { runs: [run('c')], at: 2 }], pageParams: [{ at: 0 }, { at: 2 }] }

test('events change the runs they are of, and no other page', () => {
  const next = patchPages(data, [event({ phase: 'running' }), event({ number: 2, action: 'stop' }), event({ number: 3, type: 'task', task: 't', status: 'running' })])
  expect(next.pages[0]!.runs[0]).toMatchObject({ phase: 'running', stop_requested: true, started_at: '2026-01-01T00:00:00Z' })
  expect(next.pages[0]!.runs[1]).toBe(data.pages[0]!.runs[1])
  expect(next.pages[1]).toBe(data.pages[1])
})

test('events of other runs change nothing', () => {
  expect(patchPages(data, [event({ run: 'z' })])).toBe(data)
})

test('a page is filled from short and empty answers, in both directions', async () => {
  const all = Array.from({ length: 250 }, (_, i) => run(String(i)))
  // Each answer has runs of 30 rows that are compared, every second of which matches.
  const read = (back: boolean) => async (cursor: string | undefined, limit: number) => {
    const from = Number(cursor ?? 0)
    const rows = (back ? all.slice(Math.max(0, from - 30), from) : all.slice(from, from + 30)).filter((r) => Number(r.id) % 2 === 0 && Number(r.id) >= 60)
    const runs = back ? rows.slice(-limit) : rows.slice(0, limit)
    const short = runs.length < rows.length
    const next = short && !back ? Number(runs.at(-1)!.id) + 1 : from + 30
    const prev = short && back ? Number(runs[0]!.id) : from - 30
    return { runs, next_cursor: next < all.length ? String(next) : undefined, prev_cursor: prev > 0 ? String(prev) : undefined }
  }
  const forwards = await readPage(read(false), { at: 0 })
  expect(forwards.runs.map((r) => r.id)).toEqual(all.filter((r) => Number(r.id) % 2 === 0 && Number(r.id) >= 60).map((r) => r.id))
  expect(forwards.next).toBeUndefined()
  const backwards = await readPage(read(true), { cursor: '250', at: 100, back: true })
  expect(backwards.runs).toEqual(forwards.runs)
  expect(backwards.prev).toBeUndefined()
})
