import { expect, test } from 'vitest'

import { pathsOf, treeOf } from './groups'

test('paths become a tree, and paths without runs or branches are joined', () => {
  const tree = treeOf(['/acme/web', '/acme/ci', '/acme/ci/nightly', '/solo/one/two'])
  expect(tree).toEqual([
    { path: '/acme', name: 'acme', children: [
      { path: '/acme/ci', name: 'ci', children: [{ path: '/acme/ci/nightly', name: 'nightly', children: [] }] },
      { path: '/acme/web', name: 'web', children: [] },
    ] },
    { path: '/solo/one/two', name: 'solo/one/two', children: [] },
  ])
  expect(pathsOf(tree)).toEqual(['/acme', '/acme/ci', '/acme/ci/nightly', '/acme/web', '/solo/one/two'])
})
