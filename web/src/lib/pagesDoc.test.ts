import { expect, test } from 'vitest'

import doc from '../../../docs/web.md?raw'
import router from '../router.tsx?raw'

/** The addresses of the table of pages, with the parameters as the router has them. */
const documented = [...doc.matchAll(/^\| [^|]+ \| `([^`]+)` \|/gm)].map(([, address]) => address!.replace('ID', '$id').replace('TASK', '$task'))

/** The addresses of the router. It cannot be loaded without a browser. */
function routed(): string[] {
  const routes = new Map([...router.matchAll(/const (\w+) = createRoute\(\{\s*getParentRoute: \(\) => (\w+),\s*path: '([^']+)'/g)].map(([, name, parent, path]) => [name!, { parent: parent!, path: path! }]))
  const addressOf = (name: string): string => {
    const route = routes.get(name)
    return route ? (addressOf(route.parent) + route.path).replace(/(.)\/$/, '$1') : ''
  }
  expect(routes.size, 'all routes are found').toBe(router.match(/= createRoute\(/g)!.length)
  return [...new Set([...routes.keys()].map(addressOf))]
}

test('the table of pages in docs/web.md has the addresses of the router', () => {
  const withoutPage = ['/', '/login/callback'] // a redirect, and a step of the login
  // Those of the operations are in a file of their own, and one row of the table.
  expect([...documented].sort()).toEqual([...routed().filter((a) => !withoutPage.includes(a)), '/operations'].sort())
})
