import type { Schemas } from './queries'

/** Sample is the demand of a fleet at a time, in slots. */
export interface Sample {
  at: number
  /** Slots in use. */
  busy: number
  /** Queued tasks that the fleet must serve. */
  queued: number
  /** Nothing was read for a while before this sample: the page was hidden, or the gateway could not be reached. */
  gap?: boolean
}

/** Step is a value from a time on. */
export interface Step {
  at: number
  value: number
}

/** How many samples of a fleet the page keeps: four hours at one in 5 seconds, more if the values stay. */
const maxSamples = 2_880

/** After this time without a sample the demand is unknown. */
const gapMillis = 60_000

/** add appends a sample. A sample between two equal ones says nothing, and is left out. */
export function add(samples: readonly Sample[], next: Sample): readonly Sample[] {
  const [before, last] = [samples.at(-2), samples.at(-1)]
  if (last && next.at <= last.at) return samples
  const same = (a: Sample | undefined, b: Sample | undefined) => a !== undefined && b !== undefined && a.busy === b.busy && a.queued === b.queued
  const gap = last !== undefined && next.at - last.at > gapMillis
  const kept = !gap && !last?.gap && same(before, last) && same(last, next) ? samples.slice(0, -1) : samples
  return [...kept.slice(-(maxSamples - 1)), gap ? { ...next, gap } : next]
}

/** The samples of all fleets since the page was loaded. The server keeps no history of demand. */
const history = new Map<string, readonly Sample[]>()

/** sampleFleet notes the demand of a fleet, which was read at a time. */
export function sampleFleet(fleet: Schemas['Fleet'], at: number) {
  const { busy = 0, share = 0 } = fleet.status
  const key = `${fleet.name} ${fleet.created_at}` // another fleet may get the name
  history.set(key, add(history.get(key) ?? [], { at, busy, queued: share }))
}

export function samplesOf(fleet: Schemas['Fleet']): readonly Sample[] {
  return history.get(`${fleet.name} ${fleet.created_at}`) ?? []
}

/** capacity returns the slots of ready instances over time, from the ledger, which the server keeps. */
export function capacity(instances: readonly Schemas['FleetInstance'][], perInstance: number): Step[] {
  return steps(instances.map((i) => [i.ready_at, i.draining_at ?? i.deleting_at ?? i.gone_at]), perInstance)
}

/** requested returns the slots of instances that are requested and not ready. */
export function requested(instances: readonly Schemas['FleetInstance'][], perInstance: number): Step[] {
  return steps(instances.map((i) => [i.requested_at, i.ready_at ?? i.draining_at ?? i.deleting_at ?? i.gone_at]), perInstance)
}

function steps(spans: readonly (readonly [string | undefined, string | undefined])[], weight: number): Step[] {
  const changes = new Map<number, number>()
  const change = (time: string, by: number) => changes.set(Date.parse(time), (changes.get(Date.parse(time)) ?? 0) + by)
  for (const [from, to] of spans) {
    if (!from) continue
    change(from, weight)
    if (to) change(to, -weight)
  }
  let value = 0
  return [...changes].sort(([a], [b]) => a - b).map(([at, by]) => {
    value += by
    return { at, value }
  })
}

/** valueAt returns the value of steps at a time; 0 before the first. */
export function valueAt(steps: readonly Step[], at: number): number {
  let low = 0
  let high = steps.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (steps[middle]!.at <= at) low = middle + 1
    else high = middle
  }
  return steps[low - 1]?.value ?? 0
}

/** within returns the steps between two times, with the value at the first time. */
export function within(steps: readonly Step[], from: number, to: number): Step[] {
  return [{ at: from, value: valueAt(steps, from) }, ...steps.filter((s) => s.at > from && s.at <= to)]
}

/** ceiling returns the first round number that is not below a value, and at least 4. */
export function ceiling(value: number): number {
  for (let unit = 1; ; unit *= 10) {
    for (const factor of [1, 2, 3, 4, 5, 6, 8]) if (unit * factor >= Math.max(4, value)) return unit * factor
  }
}
