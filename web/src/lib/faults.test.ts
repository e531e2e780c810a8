import { expect, test } from 'vitest'

import { faultsOf, unchanged } from './faults'

test('faults of fields are told from others', () => {
  const faults = [
    { path: 'secrets.TOKEN', detail: 'give the value again' }, { path: 'secrets.other', detail: 'no field' }, { path: 'secrets', detail: 'too many' },
    { path: 'secrets_from.TOKEN', detail: 'no such secret' }, { path: 'secrets.', detail: 'no name' },
  ]
  const { fields, others } = faultsOf(faults, 'secrets', (name) => name === 'TOKEN' || name === '')
  expect([...fields]).toEqual([['TOKEN', 'give the value again']])
  expect(others).toEqual(faults.slice(1))
})

test('a field has a fault until its value changes', () => {
  const faults = new Map([['a', 'is required'], ['b', 'is no number']])
  expect([...unchanged(faults, { b: 'x' }, { b: 'x' }).keys()]).toEqual(['a', 'b'])
  expect([...unchanged(faults, { b: 'x' }, { a: '1', b: 'x' }).keys()]).toEqual(['b'])
  expect([...unchanged(faults, { b: 'x' }, { a: '', b: '' }).keys()]).toEqual(['a'])
})
