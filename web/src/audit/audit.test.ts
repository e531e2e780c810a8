import { describe, expect, it } from 'vitest'

import { actionLabel, exportPath, fromInput, readFilters, resourceOf, rightsOf, toInput } from './audit'

describe('readFilters', () => {
  it('takes what is valid', () => {
    expect(readFilters({ subject: 'ana', group: 42, result: 'refused', from: '2026-01-31T12:00:00Z', other: 'x' }))
      .toEqual({ subject: 'ana', group: '42', result: 'refused', from: '2026-01-31T12:00:00Z' })
  })
  it('leaves out what is not', () => {
    expect(readFilters({ subject: '', action: ['a'], result: 'maybe', from: 'yesterday', to: {} })).toEqual({})
  })
})

describe('exportPath', () => {
  it('escapes the filters', () => {
    expect(exportPath({})).toBe('/api/v1/audit/export')
    expect(exportPath({ subject: 'a&b', resource: 'run/1' })).toBe('/api/v1/audit/export?subject=a%26b&resource=run%2F1')
  })
})

describe('inputs of times', () => {
  it('are in the zone of the page', () => {
    expect(toInput('2026-01-31T12:34:56Z', 'utc')).toBe('2026-01-31T12:34')
    expect(fromInput('2026-01-31T12:34', 'utc')).toBe('2026-01-31T12:34:00.000Z')
    expect(fromInput(toInput('2026-07-31T12:34:00.000Z', 'local'), 'local')).toBe('2026-07-31T12:34:00.000Z')
  })
  it('may be empty or incomplete', () => {
    expect(toInput(undefined, 'utc')).toBe('')
    expect(fromInput('', 'utc')).toBeUndefined()
    expect(fromInput('soon', 'local')).toBeUndefined()
  })
})

describe('actionLabel', () => {
  it('splits words', () => {
    expect(actionLabel('stopRun')).toBe('stop run')
    expect(actionLabel('getOpenAPI')).toBe('get open API')
    expect(actionLabel('execInTask')).toBe('exec in task')
    expect(actionLabel(undefined)).toBe('request')
  })
})

describe('rightsOf', () => {
  it('has a line for each part', () => {
    expect(rightsOf('[{"members":"web","role":"admin","groups":["/**"]},"3 of 4 left out"]')).toBe('{"members":"web","role":"admin","groups":["/**"]}\n3 of 4 left out')
    expect(rightsOf('{"name":"ci","scopes":["read"]}')).toBe('name: ci\nscopes: ["read"]')
  })
  it('shows what cannot be read as it is', () => {
    expect(rightsOf('[{"members":"we...')).toBe('[{"members":"we...')
    expect(rightsOf('null')).toBe('null')
  })
})

describe('resourceOf', () => {
  it('is a filter', () => {
    const record = { id: '', time: '', result: 'success', count: 1 } as const
    expect(resourceOf({ ...record, resource: { kind: 'run', id: '1', task: 't' } })).toBe('run/1')
    expect(resourceOf({ ...record, resource: { kind: 'session' } })).toBe('session')
    expect(resourceOf(record)).toBeUndefined()
  })
})
