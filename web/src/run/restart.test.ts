import { expect, test } from 'vitest'

import type { Run, Task } from '../api/client'
import { restartable, restartBody, restartFaults, restartFields } from './restart'

const run = { environment: { A: '1', B: '2' }, input_values: { n: 3, on: true } }
const choice = { from: 'start' as const, tasks: new Set<string>(), environment: { A: '1', B: '2' }, inputs: { n: '3', on: 'true' }, secrets: { S: '' } }

test('what is unchanged is not sent', () => {
  expect(restartBody(run, choice)).toEqual({ from: 'start' })
})

test('changes are sent, and chosen tasks instead of from', () => {
  expect(restartBody(run, { ...choice, from: 'tasks', tasks: new Set(['b']), environment: { A: '', B: '2', C: 'x' }, inputs: { n: '4', on: 'true' }, secrets: { S: 'new' } }))
    .toEqual({ tasks: ['b'], environment: { A: '', C: 'x' }, input_values: { n: '4' }, secrets: { S: 'new' } })
})

test('faults of inputs and secrets are of their fields until the values change', () => {
  const faults = [
    { path: 'input_values.n', detail: '"x" is not a number' }, { path: 'secrets.TOKEN', detail: 'give the value again' }, { path: 'environment.A', detail: 'too long' },
  ]
  const sent = { inputs: { n: 'x', on: 'true' }, secrets: {} }
  const { inputs, secrets } = restartFaults(faults, sent, sent)
  expect([[...inputs], [...secrets]]).toEqual([[['n', '"x" is not a number']], [['TOKEN', 'give the value again']]])
  const later = restartFaults(faults, sent, { inputs: { n: '3', on: 'true' }, secrets: { TOKEN: 's' } })
  expect([later.inputs.size, later.secrets.size]).toEqual([0, 0])
  expect([...restartFields({ input_values: { n: 3 }, secret_names: ['TOKEN'] })]).toEqual([['input_values.n', 'Input n'], ['secrets.TOKEN', 'Secret TOKEN']])
})

test('an expansion can be chosen as a whole', () => {
  const task = (number: number) => ({ number }) as Task
  expect(restartable({ tasks: { 'b[x]': task(2), a: task(1), 'b[y]': task(3) } } as Pick<Run, 'tasks'>)).toEqual(['a', 'b', 'b[x]', 'b[y]'])
})
