import { expect, test } from 'vitest'

import { shortNames } from './names'

const shown = (...names: string[]) => {
  const short = shortNames(names)
  return names.map((n) => short.get(n) ?? n)
}

test('long names of a matrix are shown by the values in which they differ', () => {
  expect(shown('build[ARCH=arm64,OS=linux,GO=1.26]', 'build[ARCH=amd64,OS=linux,GO=1.26]', 'report')).toEqual(['build[arm64]', 'build[amd64]', 'report'])
  expect(shown('build[ARCH=arm64,OS=linux]', 'build[ARCH=arm64,OS=windows]', 'build[ARCH=amd64,OS=linux]')).toEqual(['build[arm64,linux]', 'build[arm64,windows]', 'build[amd64,linux]'])
})

test('short names, and names that cannot be taken apart, stay', () => {
  const same = (...names: string[]) => expect(shown(...names)).toEqual(names)
  same('test[PACKAGE=api]', 'test[PACKAGE=web]')
  same('build[ARCH=arm64,OS=linux,GO=1.26]')
  same('build[a/very/long/path/of/a/package]', 'build[another/very/long/path]')
  same('build[NAME=a value, with a comma]', 'build[NAME=a value without any]')
})

test('shown names differ', () => {
  const names = ['a', 'b'].flatMap((x) => ['a', 'b'].flatMap((y) => ['c', 'd'].map((z) => `compile[FIRST=${x},SECOND=${y},THIRD=${z}]`)))
  expect(new Set(shown(...names)).size).toBe(8)
})
