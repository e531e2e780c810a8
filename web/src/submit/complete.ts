import type { Completion, CompletionContext, CompletionResult } from '@codemirror/autocomplete'

/** Schema is the part of JSON Schema that completion reads. */
export interface Schema {
  $ref?: string
  $defs?: Record<string, Schema>
  description?: string
  type?: string | string[]
  default?: unknown
  enum?: unknown[]
  properties?: Record<string, Schema>
  additionalProperties?: boolean | Schema
  items?: Schema
  anyOf?: Schema[]
  oneOf?: Schema[]
  allOf?: Schema[]
}

/** item stands for each element of a list in a path. */
const item = Symbol('item')
type Path = (string | typeof item)[]

interface Spot {
  path: Path
  /** What stands before the cursor of the word that is typed. */
  typed: string
  /** The cursor is in the value of the last key of the path. */
  value: boolean
  /** The column of the word's key. */
  column: number
}

const keyLine = /^(\s*(?:- +)*)(?:"([^"]*)"|'([^']*)'|([^\s#:"'{[-][^:#]*?))\s*:(?:\s+(.*))?$/

/** spotAt says where in the tree of a YAML text the cursor is; undefined inside of texts, comments and flow collections. */
export function spotAt(text: string): Spot | undefined {
  const lines = text.split('\n')
  const line = lines.pop()!
  const open = /^(\s*(?:- +)*)([\w.-]*)$/.exec(line)
  const value = /^(\s*(?:- +)*)([\w.-]+):\s+([\w./-]*)$/.exec(line)
  const head = open ?? value
  if (!head) return undefined
  const path: Path = []
  let column = climb(head[1]!, path)
  for (let i = lines.length - 1; i >= 0 && column > 0; i--) {
    const above = lines[i]!
    if (/^\s*(#.*)?$/.test(above)) continue
    const indent = /^\s*/.exec(above)![0].length
    const key = keyLine.exec(above)
    const dashes = /^(\s*)((?:- +)*)/.exec(above)!
    const keyColumn = indent + dashes[2]!.length
    const inList = path[0] === item
    if (key && (keyColumn < column || (inList && keyColumn === column && dashes[2] === ''))) {
      const rest = (key[5] ?? '').replace(/\s*#.*$/, '')
      if (/^[|>]/.test(rest)) return undefined // a text
      if (rest !== '' && !/^[&!]\S+$/.test(rest)) return undefined
      path.unshift(key[2] ?? key[3] ?? key[4]!)
      column = climb(key[1]!, path)
    } else if (dashes[2] !== '' && indent < column && keyColumn === column) {
      column = climb(dashes[1]! + dashes[2]!, path) // a key of the same element
    }
  }
  if (column > 0 && path[0] !== item && path.length === 0) return undefined
  return { path: value ? [...path, value[2]!] : path, typed: value ? value[3]! : open![2]!, value: !!value, column: head[1]!.length }
}

/** climb prepends an element for each dash, and returns the column of the outermost, or that of the key. */
function climb(prefix: string, path: Path): number {
  let column = prefix.length
  for (let at = prefix.lastIndexOf('-'); at >= 0; at = at === 0 ? -1 : prefix.lastIndexOf('-', at - 1)) {
    path.unshift(item)
    column = at
  }
  return column
}

/** schemasAt returns the schemas that the value at a path must match. */
export function schemasAt(root: Schema, path: Path): Schema[] {
  let at = expand(root, root)
  for (const step of path) {
    at = at.flatMap((s) => {
      const next = step === item ? s.items : (s.properties?.[step] ?? s.additionalProperties)
      return typeof next === 'object' ? expand(root, next) : []
    })
  }
  return at
}

function expand(root: Schema, schema: Schema): Schema[] {
  const name = schema.$ref?.replace(/^#\/\$defs\//, '')
  const target = name === undefined ? undefined : root.$defs?.[name]
  // Alternatives narrow what the schema says; those with keys or values are of use here.
  const all = [schema, ...(target ? expand(root, target) : [])]
  for (const part of [...(schema.anyOf ?? []), ...(schema.oneOf ?? []), ...(schema.allOf ?? [])]) all.push(...expand(root, part))
  return all
}

const typesOf = (schemas: Schema[]) => new Set(schemas.flatMap((s) => s.type ?? []))

/** keysAt returns the keys that a place allows. */
function keysAt(root: Schema, spot: Spot): Completion[] {
  const out = new Map<string, Completion>()
  const indent = ' '.repeat(spot.column + 2)
  for (const schema of schemasAt(root, spot.path)) {
    for (const [label, property] of Object.entries(schema.properties ?? {})) {
      const all = expand(root, property)
      const types = typesOf(all)
      const info = all.find((s) => s.description)?.description
      if (out.get(label)?.info) continue
      const opening = types.has('object') && !types.has('string') && !types.has('array') ? `:\n${indent}` : types.has('array') && !types.has('string') ? `:\n${indent}- ` : ': '
      out.set(label, { label, type: 'property', apply: label + opening, ...(info ? { info } : {}), detail: [...types].filter((t) => t !== 'null').join(' or ') })
    }
  }
  return [...out.values()]
}

/** valuesAt returns the values that a place allows, if they are few. */
function valuesAt(root: Schema, spot: Spot, text: string): Completion[] {
  const schemas = schemasAt(root, spot.path)
  const out = new Map<string, Completion>()
  const add = (value: unknown) => {
    if (value === null || value === '' || typeof value === 'object') return
    const label = String(value)
    out.set(label, { label, type: 'enum', ...(schemas.some((s) => s.default === value) ? { detail: 'default' } : {}) })
  }
  for (const s of schemas) for (const v of s.enum ?? []) add(v)
  const types = typesOf(schemas)
  if (types.has('boolean') && !types.has('string')) for (const v of [true, false]) add(v)
  const parent = spot.path.at(-1) === item ? spot.path.at(-2) : spot.path.at(-1) === 'task' ? 'depends' : undefined
  if (parent === 'depends') for (const label of tasksOf(text)) out.set(label, { label, type: 'variable', detail: 'task' })
  return [...out.values()]
}

/** tasksOf returns the names of the tasks of a run file. */
export function tasksOf(text: string): string[] {
  const body = /^tasks:[ \t]*(?:#.*)?\n((?:[ \t].*\n?|\s*#.*\n?|\s*\n)*)/m.exec(text)?.[1] ?? ''
  const indent = /^( +)[^\s#]/m.exec(body)?.[1]
  if (!indent) return []
  return [...body.matchAll(new RegExp(`^${indent}([\\w.-]+):`, 'gm'))].map((m) => m[1]!)
}

/** complete offers the keys and values of the schema where the cursor is, and groups for the run. */
export function complete(schema: () => Schema | undefined, groups: () => readonly string[] = () => []) {
  return (context: CompletionContext): CompletionResult | null => {
    const root = schema()
    const before = context.state.sliceDoc(0, context.pos)
    const spot = root && spotAt(before)
    if (!spot || (!context.explicit && spot.typed === '' && !spot.value)) return null
    const text = context.state.doc.toString()
    if (spot.value && spot.path.length === 1 && spot.path[0] === 'group') {
      return { from: context.pos - spot.typed.length, options: groups().map((label) => ({ label, type: 'enum' })), validFor: /^[\w./-]*$/ }
    }
    const options = spot.value ? valuesAt(root, spot, text) : [...keysAt(root, spot), ...(spot.path.at(-1) === item ? valuesAt(root, spot, text) : [])]
    return options.length === 0 ? null : { from: context.pos - spot.typed.length, options, validFor: /^[\w.-]*$/ }
  }
}
