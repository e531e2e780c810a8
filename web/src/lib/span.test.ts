import { expect, test } from 'vitest'

import { span } from './span'

test('durations are printed in units that people read', () => {
  const cases = { '720h0m0s': '30 d', '1h0m0s': '1 h', '1h30m5s': '1 h 30 min 5 s', '49h0m0s': '2 d 1 h', '2.5s': '2.5 s', '250ms': '250ms', '0s': '0s', later: 'later' }
  for (const [duration, text] of Object.entries(cases)) expect(span(duration)).toBe(text)
})
