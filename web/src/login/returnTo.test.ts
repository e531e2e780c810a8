import { expect, test } from 'vitest'

import { returnTo } from './returnTo'

const origin = 'https://drover.example.com'

test('keeps pages of this origin', () => {
  expect(returnTo('/runs?phase=open#x', origin, '')).toBe('/runs?phase=open#x')
  expect(returnTo('/', origin, '')).toBe('/')
})

test('keeps pages below the base path', () => {
  expect(returnTo('/drover/runs?phase=open', origin, '/drover')).toBe('/drover/runs?phase=open')
  expect(returnTo('/drover/', origin, '/drover')).toBe('/drover/')
})

test.each([
  undefined, '', 'runs', 'https://evil.example', '//evil.example', '/\\evil.example', '/\t/evil.example', '/.//evil.example',
  'javascript:alert(1)', '/login/callback?state=x', '/' + 'a'.repeat(2000),
])('shows the first page instead of %s', (path) => {
  expect(returnTo(path, origin, '')).toBe('/')
})

test.each([
  '/', '/runs', '/drover', '/drovers/', '/drover/../other', '/drover/%2e%2E/other', '/drover/login/callback?state=x',
])('shows the first page below the base path instead of %s', (path) => {
  expect(returnTo(path, origin, '/drover')).toBe('/drover/')
})
