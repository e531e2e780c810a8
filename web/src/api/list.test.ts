import { describe, expect, it } from 'vitest'

import { readOn } from './list'

describe('readOn', () => {
  type Page = { runs: string[]; next_after?: string; next_cursor?: string }
  const asked: (string | undefined)[] = []
  const read = (pages: Readonly<Record<string, Page>>) => {
    asked.length = 0
    return (after: string | undefined) => {
      asked.push(after)
      return Promise.resolve(pages[after ?? '']!)
    }
  }
  it('returns a page with entries as it is', async () => {
    const page = { runs: ['a'], next_after: 'x' }
    expect(await readOn('runs', undefined, read({ '': page }))).toBe(page)
    expect(asked).toEqual([undefined])
  })
  it('reads on behind empty pages', async () => {
    const pages = { '': { runs: [], next_after: 'x' }, x: { runs: [], next_cursor: 'y' }, y: { runs: ['a', 'b'], next_after: 'z' }, z: { runs: ['c'] } }
    expect(await readOn('runs', undefined, read(pages))).toBe(pages.y)
    expect(asked).toEqual([undefined, 'x', 'y'])
    expect(await readOn('runs', 'z', read(pages))).toBe(pages.z)
  })
  it('returns an empty page only at the end', async () => {
    const pages = { '': { runs: [], next_cursor: 'x' }, x: { runs: [] } }
    expect(await readOn('runs', undefined, read(pages))).toBe(pages.x)
    expect(asked).toEqual([undefined, 'x'])
  })
})
