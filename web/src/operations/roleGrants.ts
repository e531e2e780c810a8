import type { Schemas } from './queries'

type Grant = Schemas['RoleGrant']

/** A pattern of groups that YAML reads as a text also without quotes, inside of brackets. */
const plain = /^\/[\w./*-]*$/

/** textOf writes grants as the list of a file of grants, one a line. */
export function textOf(grants: readonly Grant[]): string {
  return grants.map((g) => {
    const who = g.members ? `members: ${JSON.stringify(g.members)}` : `subject: ${JSON.stringify(g.subject ?? '')}`
    return `- {${who}, role: ${g.role}, groups: [${g.groups.map((p) => (plain.test(p) ? p : JSON.stringify(p))).join(', ')}]}\n`
  }).join('')
}

export interface Draft {
  text: string
  note: string
  /** The version that is edited, 0 for a new list. */
  version: number
}

/** bodyOf returns the YAML of a PUT: the gateway reads the list that the user wrote, and says what is wrong with it. */
export function bodyOf({ text, note, version }: Draft): string {
  const empty = text.split('\n').every((line) => /^\s*(#.*)?$/.test(line))
  return `version: ${version}\nnote: ${JSON.stringify(note)}\ngrants:${empty ? ' []' : `\n${text}`}\n`
}

/** granteeOf says to whom a grant gives the role. */
export function granteeOf(g: Grant): string {
  if (g.members) return `members of ${g.members}`
  return g.subject === '*' ? 'all users' : g.subject ?? ''
}
