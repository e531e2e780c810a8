import { expect, test } from 'vitest'

import { clearDraft, readDraft, writeDraft, type Draft } from './draft'

/** memory is the storage of a tab with so much room. */
function memory(room = 1000): Storage {
  const items = new Map<string, string>()
  return {
    get length() { return items.size },
    clear: () => items.clear(),
    key: (n) => [...items.keys()][n] ?? null,
    getItem: (k) => items.get(k) ?? null,
    removeItem: (k) => void items.delete(k),
    setItem(k, v) {
      if (v.length > room) throw new Error('no room')
      items.set(k, v)
    },
  }
}

const draft: Draft = { by: 'ana', of: 'hello', text: 'name: x', values: { a: 'b' } }

test('is read again by its writer, for the same file', () => {
  const store = memory()
  writeDraft(draft, store)
  expect(readDraft('ana', 'hello', store)).toEqual(draft)
  expect(readDraft('ben', 'hello', store)).toBeUndefined()
  expect(readDraft('ana', 'matrix', store)).toBeUndefined()
  clearDraft(store)
  expect(readDraft('ana', 'hello', store)).toBeUndefined()
})

test('is not kept where there is no room, nor an older one in its place', () => {
  const store = memory()
  writeDraft(draft, store)
  writeDraft({ ...draft, text: 'x'.repeat(2000) }, store)
  expect(readDraft('ana', 'hello', store)).toBeUndefined()
})

test.each(['{', 'null', '7', '{"by":"ana","of":"hello"}'])('stored as %s, it is none', (text) => {
  const store = memory()
  store.setItem('submit.draft', text)
  expect(readDraft('ana', 'hello', store)).toBeUndefined()
})
