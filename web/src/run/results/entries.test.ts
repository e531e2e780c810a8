import { expect, test } from 'vitest'

import { imageType, previewOf, rowsIn, textOf, type Entry } from './entries'

const entry = (path: string, size = 1, type: Entry['type'] = 'file'): Entry => ({ path, type, mode: '0644', size, modified_at: '2026-01-01T00:00:00Z' })

test('a directory lists what is directly in it, directories first', () => {
  const entries = [entry('./b.txt', 5), entry('dir/', 0, 'directory'), entry('dir/x/10.log', 7), entry('dir/x/9.log', 3), entry('a10.txt'), entry('a9.txt')]
  expect(rowsIn(entries, '').map((r) => [r.name, r.directory, r.size, r.files])).toEqual([
    ['dir', true, 10, 2], ['a9.txt', false, 1, 1], ['a10.txt', false, 1, 1], ['b.txt', false, 5, 1],
  ])
  expect(rowsIn(entries, 'dir').map((r) => r.path)).toEqual(['dir/x'])
  expect(rowsIn(entries, 'dir/x').map((r) => r.name)).toEqual(['9.log', '10.log'])
  expect(rowsIn(entries, 'di')).toEqual([])
})

test('only images that cannot have scripts are shown as images', () => {
  expect(previewOf('a.PNG', 100)).toBe('image')
  expect(previewOf('a.png', 1 << 30)).toBe('none')
  expect(previewOf('a.svg', 100)).toBe('text')
  expect(previewOf('a.html', 100)).toBe('text')
  expect(previewOf('constructor', 100)).toBe('text')
  expect(imageType('x.constructor')).toBeUndefined()
  expect(previewOf('a.tar.gz', 100)).toBe('none')
})

test('a file with a zero byte is not text', () => {
  expect(textOf(new Uint8Array([104, 105]))).toBe('hi')
  expect(textOf(new Uint8Array([104, 0, 105]))).toBeUndefined()
})
