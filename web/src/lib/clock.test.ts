import { expect, test } from 'vitest'

import { Clock } from './clock'

const noon = Date.parse('2026-01-01T12:00:00Z')
const header = (time: number) => new Date(time).toUTCString()

function clockWith(wall: number) {
  let passed = 5_000
  const clock = new Clock(() => passed, () => wall)
  return { clock, pass: (millis: number) => (passed += millis), passed: () => passed }
}

test('is the clock of the browser until the server has answered', () => {
  const { clock } = clockWith(noon)
  expect(clock.now()).toBe(noon)
  clock.observe(null, 0)
  clock.observe('yesterday', 0)
  expect(clock.now()).toBe(noon)
})

test.each([['ahead', 5 * 3_600_000], ['behind', -5 * 3_600_000]])('is that of the server if the browser is hours %s', (_, error) => {
  const { clock, pass, passed } = clockWith(noon + error)
  const requested = passed()
  pass(40)
  clock.observe(header(noon), requested)
  expect(Math.abs(clock.now() - noon)).toBeLessThanOrEqual(1_000)
  const before = clock.now()
  pass(90_000)
  expect(clock.now() - before).toBe(90_000)
})

test('becomes exact with further answers', () => {
  const { clock, pass, passed } = clockWith(noon)
  const begun = passed()
  for (let i = 0; i < 50; i++) {
    pass(137)
    clock.observe(header(noon + passed() - begun), passed())
  }
  expect(Math.abs(clock.now() - (noon + passed() - begun))).toBeLessThan(150)
})

test('follows a clock of the server that is set', () => {
  const { clock, pass, passed } = clockWith(noon)
  clock.observe(header(noon), passed())
  pass(1_000)
  clock.observe(header(noon + 3_600_000), passed())
  expect(Math.abs(clock.now() - noon - 3_600_000)).toBeLessThanOrEqual(1_000)
})
