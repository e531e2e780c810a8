import { expect, test } from 'vitest'

import { idOf, matching, maxShown, nameBefore, pathOf, type Entry } from './entries'

const pool = (name: string): Entry => ({ kind: 'pool', name, link: { to: '/operations/pools/$name', params: { name } } })
const names = (entries: Entry[]) => entries.map((e) => e.name)

test('the whole name comes first, then its beginning, the beginning of a word, and its middle', () => {
  const entries = ['shared-linux', 'large-linux-arm', 'linux-small', 'gnulinux', 'linux', 'windows'].map(pool)
  expect(names(matching('linux', entries))).toEqual(['linux', 'linux-small', 'shared-linux', 'large-linux-arm', 'gnulinux'])
})

test.each([
  ['in any case', 'Deploy', 'deploy', 1],
  ['with blanks around the text', 'deploy', '  deploy ', 1],
  ['a group path, by its last element', 'group:/acme/web', 'web', 1],
  ['without characters that mean something in a pattern', 'deploy', 'd.ploy', 0],
  ['a path with a slash at its end', '/acme/web', '/acme/web/', 1],
  ['nothing', 'deploy', ' ', 0],
])('%s', (_, name, text, found) => {
  expect(matching(text, [pool(name)])).toHaveLength(found)
})

test('the same place is shown once, and only the best are shown', () => {
  expect(matching('a', [pool('a'), pool('a')])).toHaveLength(1)
  expect(matching('p', Array.from({ length: 50 }, (_, i) => pool(`p${i}`)))).toHaveLength(maxShown)
})

test('the name before all that begin with a text', () => {
  const bytes = (text: string) => new TextEncoder().encode(text)
  const before = (a: string, b: string) => Buffer.compare(bytes(a), bytes(b)) < 0
  for (const text of ['job-2', 'a', 'über', '\u{e000}', 'x\u{1f600}']) {
    const name = nameBefore(text)!
    expect(before(name, text), text).toBe(true)
    expect(name.isWellFormed()).toBe(true)
  }
  expect(before('job-1999', nameBefore('job-2')!)).toBe(true)
  expect(before('job-1~', nameBefore('job-2')!)).toBe(true)
  expect(nameBefore('')).toBeUndefined()
})

test('the id of a run', () => {
  expect(idOf(' 01JD7Q3V6K8M9N0P1R2S3T4V5W ')).toBe('01jd7q3v6k8m9n0p1r2s3t4v5w')
  expect(idOf('01jd7q3v6k8m9n0p1r2s3t4v5')).toBeUndefined()
  expect(idOf('01jd7q3v6k8m9n0p1r2s3t4v5-')).toBeUndefined()
})

test('the path of a group', () => {
  expect(pathOf('/acme/web/')).toBe('/acme/web')
  expect(pathOf('acme')).toBeUndefined()
})
