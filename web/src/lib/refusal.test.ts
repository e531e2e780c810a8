import { expect, test } from 'vitest'

import { missingScope } from './refusal'

test('the scope that a refusal names', () => {
  expect(missingScope('token viewer does not have the scope admin')).toBe('admin')
  expect(missingScope('the request comes from another origin')).toBeUndefined()
})
