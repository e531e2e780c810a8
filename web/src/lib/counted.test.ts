import { expect, test } from 'vitest'

import { counted } from './counted'

test('one thing is not several', () => {
  expect([0, 1, 2, 2000].map((n) => counted(n, 'task'))).toEqual(['0 tasks', '1 task', '2 tasks', '2,000 tasks'])
})
