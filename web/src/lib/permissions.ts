import type { components } from '../api/schema.gen'
import table from './operations.json'

export type Session = components['schemas']['Session']
export type Binding = components['schemas']['RoleBinding']
export type Role = Binding['role']
export type Permission = 'view' | 'submit' | 'approve' | 'operate' | 'administer'

/** Operation is an operation of the API that needs a token. */
export type Operation = keyof typeof table

/** A Rule is what an operation needs: of a caller with scopes the scope, and of one with bindings the permission. */
interface Rule {
  scope: string
  need: Permission
  /**
   * Where a caller with bindings needs it: in the group of a run or of a schedule, in all groups that may use a fleet, in all
   * groups, or in any group, which is then that of the call. A call about the caller alone needs none.
   */
  of: 'run' | 'schedule' | 'fleet' | 'all' | 'some' | 'caller'
}

// `make generate` writes the table from the rules of the gateway.
const rules = table as Readonly<Record<Operation, Rule>>

/** The permissions of the roles, as internal/roles has them. */
const permissions: Readonly<Record<Role, readonly Permission[]>> = {
  viewer: ['view'],
  submitter: ['view', 'submit'],
  approver: ['view', 'approve'],
  operator: ['view', 'submit', 'approve', 'operate'],
  admin: ['view', 'submit', 'approve', 'operate', 'administer'],
}

export const roles = Object.keys(permissions) as Role[]

/** What each scope implies. */
const implied: Readonly<Record<string, readonly string[]>> = {
  read: ['read'],
  write: ['write', 'read'],
  exec: ['exec'],
  admin: ['admin', 'exec', 'write', 'read'],
}

/** The most bytes of a pattern. */
const maxPattern = 500

/** roleAllows reports whether a role has a permission. */
export function roleAllows(role: Role, need: Permission): boolean {
  return Object.hasOwn(permissions, role) && permissions[role].includes(need)
}

/** needs names the least role that has a permission. */
export function needs(need: Permission): string {
  const least: Record<Permission, Role> = { view: 'viewer', submit: 'submitter', approve: 'approver', operate: 'operator', administer: 'admin' }
  return `the role ${least[need]}`
}

/** pathOf returns the path of a pattern such as /acme/**, '' of /**, and undefined if it is not valid. */
export function pathOf(pattern: string): string | undefined {
  if (!pattern.endsWith('/**') || new TextEncoder().encode(pattern).length > maxPattern) return undefined
  const path = pattern.slice(0, -3)
  if (path === '') return path
  if (!path.startsWith('/')) return undefined
  return path.slice(1).split('/').every((e) => e !== '' && e !== '.' && e !== '..' && !e.includes('*')) ? path : undefined
}

const within = (group: string, path: string) => path === '' || group === path || group.startsWith(`${path}/`)

/** pathsOf returns the paths in and below which bindings give a permission, none of them below another: '' is all groups. */
export function pathsOf(bindings: readonly Binding[], need: Permission): string[] {
  const all = bindings.filter((b) => roleAllows(b.role, need)).flatMap((b) => b.groups.map(pathOf).filter((p) => p !== undefined))
  const out: string[] = []
  for (const path of all.sort()) if (!out.some((above) => within(path, above))) out.push(path)
  return out
}

/** bindingsAllow reports whether bindings give a permission in a group; '' is what belongs to no group, or to all. */
export function bindingsAllow(bindings: readonly Binding[], need: Permission, group: string): boolean {
  return pathsOf(bindings, need).some((path) => path === '' || (group !== '' && within(group, path)))
}

/** restricted reports whether roles in groups decide what the user may do, and not scopes. */
export function restricted(session: Session): session is Session & { bindings: Binding[] } {
  return !!session.bindings?.length
}

/**
 * refusalOf says what the user lacks for an operation, and returns undefined if the gateway allows it. The group is that of
 * the run, of the schedule, or of what is created; for a fleet they are the patterns of its groups. Without a group, any
 * group is enough where an operation concerns some.
 */
export function refusalOf(session: Session, operation: Operation, group: string | readonly string[] = ''): string | undefined {
  const { scope, need, of } = rules[operation]
  if (!restricted(session)) return session.scopes.some((s) => implied[s]?.includes(scope)) ? undefined : `Needs the scope ${scope}.`
  if (of === 'caller') return undefined
  if (of === 'some' && group === '') return pathsOf(session.bindings, need).length > 0 ? undefined : `Needs ${needs(need)} in a group.`
  const all = of === 'all' || group.length === 0
  const where = all ? [''] : typeof group === 'string' ? [group] : group.map((pattern) => pathOf(pattern) ?? '')
  if (where.every((path) => bindingsAllow(session.bindings, need, path))) return undefined
  return `Needs ${needs(need)} in ${where.every((path) => path !== '') ? listOf(typeof group === 'string' ? where : group) : 'all groups, /**'}.`
}

/** submitPaths returns the paths in and below which the user may submit runs: '' is all groups. */
export function submitPaths(session: Session): string[] {
  if (restricted(session)) return pathsOf(session.bindings, 'submit')
  return refusalOf(session, 'createRun') === undefined ? [''] : []
}

/** listOf joins words as a sentence does. */
export function listOf(words: readonly string[]): string {
  return words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`
}

/** rightsOf says what the user has: "the role viewer in /acme/**", or "the scopes read, write". */
export function rightsOf(session: Session): string {
  if (restricted(session)) return listOf(session.bindings.map((b) => `the role ${b.role} in ${listOf(b.groups)}`))
  if (session.scopes.length === 0) return 'no scope'
  return `the ${session.scopes.length === 1 ? 'scope' : 'scopes'} ${session.scopes.join(', ')}`
}
