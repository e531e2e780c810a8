import { expect, test } from 'vitest'

import type { Run, Task } from '../api/client'
import { restartable, restartBody } from './restart'

const run = { environment: { A: '1', B: '2' }, input_values: { n: 3, on: true } }
const choice = { from: 'start' as const, tasks: new Set<string>(), environment: { A: '1', B: '2' }, inputs: { n: '3', on: 'true' }, secrets: { S: '' } }

test('what is unchanged is not sent', () => {
  expect(restartBody(run, choice)).toEqual({ from: 'start' })
})

test('changes are sent, and chosen tasks instead of from', () => {
  expect(restartBody(run, { ...choice, from: 'tasks', tasks: new Set(['b']), environment: { A: '', B: '2', C: 'x' }, inputs: { n: '4', on: 'true' }, secrets: { S: 'new' } }))
    .toEqual({ tasks: ['b'], environment: { A: '', C: 'x' }, input_values: { n: '4' }, secrets: { S: 'new' } })
})

test('an expansion can be chosen as a whole', () => {
  const task = (number: number) => ({ number }) as Task
  expect(restartable({ tasks: { 'b[x]': task(2), a: task(1), 'b[y]': task(3) } } as Pick<Run, 'tasks'>)).toEqual(['a', 'b', 'b[x]', 'b[y]'])
})
