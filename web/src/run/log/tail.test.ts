import { expect, test } from 'vitest'

import { failedStep, tailOf } from './tail'

const bytes = (text: string) => new TextEncoder().encode(text)

test.each([
  ['the last lines, without empty ones around them', '\n\na\n\nb\n\n', ['a', '', 'b']],
  ['a last line without a line break', 'a\nb', ['a', 'b']],
  ['what a carriage return has left', '10%\r20%\rdone\r\n', ['done']],
  ['nothing of a log without text', '\n \n', []],
  ['ten lines', Array.from({ length: 15 }, (_, i) => `${i}`).join('\n'), Array.from({ length: 10 }, (_, i) => `${i + 5}`)],
  ['no part of a line that is cut off', `${'x'.repeat(5_000)}\nend`, ['end']],
  ['the whole line at which it is cut', `x\n${'y'.repeat(4_095)}\n`, ['y'.repeat(4_095)]],
  ['the end of a line that is too long, and ends', `${'x'.repeat(5_000)}\n\n`, ['x'.repeat(4_094)]],
  ['no part of a character that is cut off', `${'é'.repeat(2_500)}x`, [`${'é'.repeat(2_047)}x`]],
  ['the end of a line that is too long', 'x'.repeat(5_000), ['x'.repeat(4_096)]],
])('%s', (_, log, want) => {
  expect(tailOf(bytes(log).subarray(-4_097))).toEqual(want)
})

const step = (status: 'success' | 'failed' | 'skipped') => ({ name: '', type: 'run', status, timed_out: false })

test('the step that failed is the first one, not a cleanup step after it', () => {
  expect(failedStep({ steps: [step('success'), step('failed'), step('skipped'), step('failed')] })).toBe(1)
  expect(failedStep({ steps: [step('skipped')] })).toBeUndefined()
})
