import { describe, expect, it } from 'vitest'

import type { GraphNode, NodeState } from './graph'
import { descriptionOf } from './description'

const node = (kind: GraphNode['kind'], more: Partial<GraphNode> = {}): GraphNode => ({ id: 'build', label: 'build', kind, tasks: ['build'], layer: 0, finally: false, ...more })
const state = (more: Partial<NodeState>): NodeState => ({ status: 'not_started', counts: {}, total: 1, ended: 0, attempt: 0, reason: '', ...more })
const now = Date.parse('2026-01-01T01:02:30Z')

describe('descriptionOf', () => {
  it('says what the card of a task shows', () => {
    expect(descriptionOf(node('task'), state({}), 0, now)).toBe('not started, no dependencies')
    const failed = state({ status: 'failed', attempt: 2, reason: 'exit code 1', started: '2026-01-01T01:00:00Z', finished: '2026-01-01T01:01:05Z' })
    expect(descriptionOf(node('task'), failed, 1, now)).toBe('failed, attempt 2, took 1 min 5 s, exit code 1, 1 dependency')
    expect(descriptionOf(node('task', { finally: true }), state({ status: 'queued', reason: 'no executor' }), 1200, now)).toBe('queued, no executor, finally, 1,200 dependencies')
  })
  it('says to the minute how long a task has been running', () => {
    const running = (started: string) => descriptionOf(node('task'), state({ status: 'running', attempt: 1, started }), 0, now)
    expect(running('2026-01-01T01:02:00Z')).toBe('running, attempt 1, for less than a minute, no dependencies')
    expect(running('2026-01-01T01:00:10Z')).toBe('running, attempt 1, for 2 min, no dependencies')
    expect(running('2026-01-01T00:00:10Z')).toBe('running, attempt 1, for 1 h 2 min, no dependencies')
  })
  it('says the progress of several tasks', () => {
    const matrix = state({ status: 'failed', total: 1000, ended: 900, counts: { success: 899, failed: 1, running: 100 }, reason: 'exit code 1' })
    expect(descriptionOf(node('expansion'), matrix, 2, now)).toBe('900 of 1,000 tasks ended, 1 failed, 100 running, 899 success, 2 dependencies')
  })
})
