import { expect, test } from 'vitest'

import { groupOf, withGroup } from './group'
import { templates } from './templates'

test('the group of a run file', () => {
  expect(groupOf('name: a\ngroup: /acme/web # ours\n')).toBe('/acme/web')
  expect(groupOf('group: "/a b/c"\n')).toBe('/a b/c')
  for (const text of ['', 'name: a\n', 'group:\n', 'group: 5\n', 'group: [\n', '- a\n', 'text']) expect(groupOf(text), text).toBeUndefined()
})

test('another group leaves the rest of a file as it is written', () => {
  expect(withGroup('# about\nname:   a\ngroup: "/x/y"  # ours\n\ntasks:  {}\n', '/acme/web')).toBe('# about\nname:   a\ngroup: /acme/web  # ours\n\ntasks:  {}\n')
  expect(withGroup('name: a\ngroup: ""\n', '/acme/web')).toBe('name: a\ngroup: /acme/web\n')
  expect(withGroup('# about\nname: a\n', '/acme/web')).toBe('# about\ngroup: /acme/web\nname: a\n')
  expect(withGroup('name: a\ngroup: /x/y\n', '/a # b/c: d')).toBe('name: a\ngroup: "/a # b/c: d"\n')
  for (const text of ['group: [\n', '- a\n', 'group:\nname: a\n', '{name: a}\n']) expect(withGroup(text, '/acme/web'), text).toBe(text)
})

test('every template can be submitted in another group', () => {
  for (const { name, text } of templates) {
    const changed = withGroup(text, '/acme/web')
    expect(groupOf(changed), name).toBe('/acme/web')
    expect(changed.split('\n').length, name).toBe(text.split('\n').length)
  }
})
