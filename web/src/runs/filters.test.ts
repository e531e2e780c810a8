import { expect, test } from 'vitest'

import { filtersOf, isFiltered, queryOf } from './filters'

test('values of a URL that the API does not take are left out', () => {
  const filters = filtersOf({ phase: ['running', 'nonsense', 'running'], result: 'failed', group: 7, created_after: 'yesterday', order: 'sideways' })
  expect(filters).toEqual({ phase: ['running'], result: ['failed'], group: '7' })
  expect(isFiltered(filters)).toBe(true)
  expect(isFiltered(filtersOf({ order: 'asc' }))).toBe(false)
})

test('a day begins at its midnight in the zone of the user', () => {
  expect(queryOf({ created_after: '2026-03-01' }).created_after).toEqual([new Date(2026, 2, 1).toISOString()])
  expect(queryOf({ created_after: '2026-03-01T10:00:00Z' }).created_after).toEqual(['2026-03-01T10:00:00.000Z'])
})

test('runs of the user are not those of another creator', () => {
  expect(filtersOf({ mine: true, created_by: 'ann', name: 'build' })).toEqual({ mine: true, name: 'build' })
  expect(filtersOf({ mine: 'yes', created_by: 'ann' })).toEqual({ created_by: 'ann' })
  expect(queryOf({ mine: true, name: 'build' })).toEqual({ mine: true, name: ['build'] })
  expect(queryOf({ created_by: 'ann' })).toEqual({ created_by: ['ann'] })
})

test('runs are found by their warnings and by an input', () => {
  const filters = filtersOf({ warnings: true, input: 'target=prod', result: 'success' })
  expect(filters).toEqual({ warnings: true, input: 'target=prod', result: ['success'] })
  expect(queryOf(filters)).toEqual({ warnings: true, input: ['target=prod'], result: ['success'] })
  expect(isFiltered(filtersOf({ warnings: true }))).toBe(true)
  expect(isFiltered(filtersOf({ warnings: 'yes', input: ['a'] }))).toBe(false)
})
