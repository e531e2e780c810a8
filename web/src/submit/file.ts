import { isMap, isNode, isScalar, parseDocument, stringify, type Document } from 'yaml'

import type { components } from '../api/schema.gen'
import { faultsOf } from '../lib/faults'

export type Input = components['schemas']['Input']

/** What the page changes in a run file before it submits it. */
export interface Changes {
  /** Values of inputs, by name. */
  values: Readonly<Record<string, string>>
  admission?: 'auto' | 'manual'
}

/** withChanges returns a run file with the changes; its other parts stay as they are written. */
export function withChanges(text: string, { values, admission }: Changes): string {
  if (Object.keys(values).length === 0 && !admission) return text
  const file = parseDocument(text)
  if (file.errors.length > 0) throw new Error(`The file cannot be changed: ${file.errors[0]!.message}`)
  for (const [name, value] of Object.entries(values)) file.setIn(['input_values', name], value)
  if (admission) file.set('admission', admission)
  return file.toString({ lineWidth: 0 })
}

/** What a run file says of its inputs. */
export interface FileInputs {
  /** Their names, in the order of the file. */
  names: readonly string[]
  /** The values that it gives them. */
  values: Readonly<Record<string, unknown>>
}

/** inputsOf returns what a run file says of its inputs, as far as it can be read. */
export function inputsOf(text: string): FileInputs {
  const file = parseDocument(text)
  if (file.errors.length > 0) return { names: [], values: {} }
  const inputs = file.get('inputs')
  // A JavaScript object would put names that are numbers first.
  const names = isMap(inputs) ? inputs.items.map(({ key }) => String(isScalar(key) ? key.value : key)) : []
  return { names, values: valuesOf(file) }
}

/** valuesOf returns the values of inputs. It reads nothing else: an alias to nothing is no fault of the syntax, and throws when it is read. */
function valuesOf(file: Document): Record<string, unknown> {
  try {
    const node = file.get('input_values')
    const values: unknown = isNode(node) ? node.toJS(file) : undefined
    return typeof values === 'object' && values !== null && !Array.isArray(values) ? (values as Record<string, unknown>) : {}
  } catch {
    return {} // a faulty alias, or too many; the server's check names it
  }
}

/** inputFaults divides faults into those of inputs whose value is not that of the file, by their names, and all others. */
export function inputFaults<F extends { path: string; detail: string }>(faults: readonly F[], inputs: Readonly<Record<string, Input>>, file: FileInputs, values: Readonly<Record<string, string>>): { ofInputs: ReadonlyMap<string, string>; others: readonly F[] } {
  const { fields, others } = faultsOf(faults, 'input_values', (name) => Object.hasOwn(inputs, name) && (Object.hasOwn(values, name) || !Object.hasOwn(file.values, name)))
  return { ofInputs: fields, others }
}

/** inOrder returns inputs in the order of the file, and those that it does not name at the end. */
export function inOrder(inputs: Readonly<Record<string, Input>>, { names }: FileInputs): [string, Input][] {
  const at = new Map(names.map((name, i) => [name, i]))
  return Object.entries(inputs).sort(([a], [b]) => (at.get(a) ?? names.length) - (at.get(b) ?? names.length))
}

/** admissionOf returns what a run file says about its start, if it can be read. */
export function admissionOf(text: string): 'auto' | 'manual' {
  const file = parseDocument(text)
  return file.errors.length === 0 && file.get('admission') === 'manual' ? 'manual' : 'auto'
}

/** fileOf returns the run file of a specification. */
export function fileOf(spec: unknown): string {
  return stringify(spec, { lineWidth: 0 })
}

/** newKey returns an idempotency key. Pages without TLS have no crypto.randomUUID. */
export function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, '0')).join('')
}
