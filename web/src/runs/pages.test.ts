import { expect, test } from 'vitest'

import type { Event, Run } from '../api/client'
import { patchPages } from './pages'

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
