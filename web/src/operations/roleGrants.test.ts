import { expect, test } from 'vitest'

import { bodyOf, granteeOf, textOf } from './roleGrants'

test('grants are written like those of a file', () => {
  expect(textOf([
    { members: 'web', role: 'submitter', groups: ['/acme/web/**', '/a b, c/**'] },
    { subject: '*', role: 'viewer', groups: ['/**'] },
    { subject: 'CN="a",\n#', role: 'admin', groups: ['/é/**'] },
  ])).toBe('- {members: "web", role: submitter, groups: [/acme/web/**, "/a b, c/**"]}\n- {subject: "*", role: viewer, groups: [/**]}\n- {subject: "CN=\\"a\\",\\n#", role: admin, groups: ["/é/**"]}\n')
  expect(textOf([])).toBe('')
})

test('a list is put with the version that was edited', () => {
  expect(bodyOf({ text: '- {subject: a, role: admin, groups: [/**]}\n', note: 'a: "b"\n', version: 7 })).toBe('version: 7\nnote: "a: \\"b\\"\\n"\ngrants:\n- {subject: a, role: admin, groups: [/**]}\n\n')
})

test('no grant is an empty list', () => {
  for (const text of ['', ' \n', '# none\n']) expect(bodyOf({ text, note: '', version: 0 })).toBe('version: 0\nnote: ""\ngrants: []\n')
})

test('to whom a grant gives the role', () => {
  expect(granteeOf({ members: 'web', role: 'admin', groups: [] })).toBe('members of web')
  expect(granteeOf({ subject: 'ana', role: 'admin', groups: [] })).toBe('ana')
  expect(granteeOf({ subject: '*', role: 'admin', groups: [] })).toBe('all users')
})
