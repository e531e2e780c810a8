import { describe, expect, it } from 'vitest'

import type { Task } from '../api/client'
import { countsOf, countTasks, kindOf, outcome, statusLabels, statusOrder, statusSigns, worst } from './status'

describe('outcome', () => {
  it.each([
    [{ phase: 'queued' }, 'queued'],
    [{ phase: 'running' }, 'running'],
    [{ phase: 'running', stop_requested: true }, 'stopping'],
    [{ phase: 'finished', result: 'success' }, 'success'],
    [{ phase: 'finished', result: 'success', warnings: ['lint failed'] }, 'success with warnings'],
    [{ phase: 'finished', result: 'success', task_counts: { success: 1, failed: 1 } }, 'success with warnings'],
    [{ phase: 'finished', result: 'failed' }, 'failed'],
    [{ phase: 'finished', result: 'stopped' }, 'stopped'],
    [{ phase: 'cancelled' }, 'cancelled'],
    [{ phase: 'setup_error' }, 'setup error'],
  ] as const)('of %j is %s', (run, label) => {
    expect(outcome(run as unknown as Parameters<typeof outcome>[0]).label).toBe(label)
  })
})

describe('statuses', () => {
  it('have a sign, a word and an order', () => {
    expect([...statusOrder].sort()).toEqual(Object.keys(statusLabels).sort())
    expect(new Set(Object.values(statusSigns)).size).toBe(statusOrder.length)
  })
  it('show the most urgent of several', () => {
    expect(worst({ success: 3, failed: 1, running: 2 })).toBe('failed')
    expect(worst({ success: 3, queued: 1 })).toBe('queued')
    expect(worst({})).toBe('not_started')
  })
  it('tell a failure that is allowed from one that is not', () => {
    const tasks = [{ status: 'failed', allow_failure: true }, { status: 'failed' }, { status: 'success', allow_failure: true }] as Task[]
    expect(tasks.map(kindOf)).toEqual(['warnings', 'failed', 'success'])
    expect(countTasks(tasks)).toEqual({ warnings: 1, failed: 1, success: 1 })
    expect(worst({ success: 1, warnings: 1 })).toBe('warnings')
    expect(worst({ running: 1, warnings: 1 })).toBe('running')
    expect(countsOf({ phase: 'finished', result: 'success', task_counts: { success: 1, failed: 2 } })).toEqual({ success: 1, warnings: 2 })
    expect(countsOf({ phase: 'finished', result: 'failed', task_counts: { failed: 2 } })).toEqual({ failed: 2 })
  })
})
