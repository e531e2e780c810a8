import { expect, test } from 'vitest'

import { timestampIn } from './zone'

test('a time in a time zone has its name', () => {
  expect(timestampIn('2026-11-27T02:00:00Z', 'Europe/Berlin')).toBe('2026-11-27 03:00:00 Europe/Berlin')
  expect(timestampIn('2026-11-27T02:00:00Z')).toBe('2026-11-27 02:00:00 UTC')
  expect(timestampIn('2026-11-27T02:00:00Z', 'Europe/Nowhere')).toBe('2026-11-27 02:00:00 UTC')
})
