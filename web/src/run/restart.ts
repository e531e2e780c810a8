import type { Run } from '../api/client'
import type { components } from '../api/schema.gen'
import { faultsOf, unchanged } from '../lib/faults'
import { baseOf } from './graph/graph'

export type RestartBody = components['schemas']['Restart']

export interface RestartChoice {
  from: 'start' | 'failed' | 'tasks'
  tasks: ReadonlySet<string>
  environment: Readonly<Record<string, string>>
  inputs: Readonly<Record<string, string>>
  secrets: Readonly<Record<string, string>>
}

/** restartBody returns the call of a restart: of variables and inputs only those that change. */
export function restartBody(run: Pick<Run, 'environment' | 'input_values'>, choice: RestartChoice): RestartBody {
  const body: RestartBody = choice.from === 'tasks' ? { tasks: [...choice.tasks] } : { from: choice.from }
  const environment = changed(choice.environment, run.environment)
  const inputs = changed(choice.inputs, textsOf(run.input_values))
  const secrets = changed(choice.secrets, {})
  for (const [name, value] of Object.entries(secrets)) if (value === '') delete secrets[name]
  if (Object.keys(environment).length > 0) body.environment = environment
  if (Object.keys(inputs).length > 0) body.input_values = inputs
  if (Object.keys(secrets).length > 0) body.secrets = secrets
  return body
}

/** Filled are the fields of inputs and secrets, as the user filled them in. */
export type Filled = Pick<RestartChoice, 'inputs' | 'secrets'>

/** restartFields names the fields of inputs and secrets, by the paths of their values in a call. */
export function restartFields(run: Pick<Run, 'input_values' | 'secret_names'>): ReadonlyMap<string, string> {
  return new Map([
    ...Object.keys(run.input_values ?? {}).map((name) => [`input_values.${name}`, `Input ${name}`] as const),
    ...run.secret_names.map((name) => [`secrets.${name}`, `Secret ${name}`] as const),
  ])
}

/** restartFaults returns what the gateway refuses of the fields, by their names, until their values change. */
export function restartFaults(faults: readonly { path: string; detail: string }[], sent: Filled, now: Filled): { inputs: ReadonlyMap<string, string>; secrets: ReadonlyMap<string, string> } {
  return {
    inputs: unchanged(faultsOf(faults, 'input_values', () => true).fields, sent.inputs, now.inputs),
    secrets: unchanged(faultsOf(faults, 'secrets', () => true).fields, sent.secrets, now.secrets),
  }
}

/** textsOf returns the values of inputs as texts, as calls have them. */
export function textsOf(values: Readonly<Record<string, unknown>> | undefined): Record<string, string> {
  return Object.fromEntries(Object.entries(values ?? {}).map(([k, v]) => [k, String(v)]))
}

function changed(to: Readonly<Record<string, string>>, from: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(to).filter(([k, v]) => !Object.hasOwn(from, k) || from[k] !== v))
}

/** restartable returns what can be chosen: the tasks, and before those of an expansion the name of all of it. */
export function restartable(run: Pick<Run, 'tasks'>): string[] {
  const tasks = Object.entries(run.tasks ?? {}).sort(([, a], [, b]) => a.number - b.number).map(([name]) => name)
  const sizes = new Map<string, number>()
  for (const name of tasks) sizes.set(baseOf(name), (sizes.get(baseOf(name)) ?? 0) + 1)
  const seen = new Set<string>()
  const names: string[] = []
  for (const name of tasks) {
    const base = baseOf(name)
    if (base !== name && sizes.get(base)! > 1 && !seen.has(base) && !(base in (run.tasks ?? {}))) {
      seen.add(base)
      names.push(base)
    }
    names.push(name)
  }
  return names
}
