import { expect, it } from 'vitest'

import { eventOf } from './eventOf'

it('reads an event', () => {
  const event = { id: 7, type: 'task', run: '01m83ps6va2g1cdk0dehtknvnf', task: 'build', status: 'running', time: '2026-11-23T18:00:00Z' }
  expect(eventOf(JSON.stringify(event))).toEqual(event)
})

it.each(['', '{', 'null', '5', '"run"', '[]', '{}', '{"type":"task","run":5,"time":""}', '{"type":"run","run":"a"}'])('refuses %j', (data) => {
  expect(eventOf(data)).toBeUndefined()
})
