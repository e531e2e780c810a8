import { hashKey, type QueryClient } from '@tanstack/react-query'

import { below } from '../lib/base'
import { finish, inSlices, turn } from '../lib/slices'
import { fetchTimed, type Run, type Task } from './client'
import { ForeignAnswer, isJSON, problemOf } from './problem'

/** The versions of the runs that were loaded: what did not change is neither sent nor parsed again. */
const tags = new WeakMap<Run, string>()

/** loadRun reads a run. It returns the known one if the gateway says that nothing changed. */
export async function loadRun(id: string, known: Run | undefined, signal?: AbortSignal): Promise<Run> {
  const tag = known && tags.get(known)
  const answer = await fetchTimed(below(`/api/v1/runs/${encodeURIComponent(id)}`), { signal, headers: { Accept: 'application/json', ...(tag && { 'If-None-Match': tag }) } })
  if (answer.status === 304 && known) return known
  if (!answer.ok) throw await problemOf(answer)
  if (!isJSON(answer)) throw new ForeignAnswer(answer.status)
  const next = (await answer.json()) as Run
  if (known) await turn() // a large run is parsed and compared in several turns, between which the page may draw
  const run = (await inSlices(sharing(known, next), signal)) ?? next
  const read = answer.headers.get('ETag')
  if (read) tags.set(run, read)
  return run
}

/**
 * shareTasks returns a run whose tasks are those of the known one as far as they are equal: what shows them need not be
 * drawn again.
 */
export function shareTasks(known: Run | undefined, next: Run): Run {
  return finish(sharing(known, next))
}

/** sharing is shareTasks in steps. */
function* sharing(known: Run | undefined, next: Run): Generator<undefined, Run> {
  if (!known?.tasks || !next.tasks) return next
  const { tasks } = known
  const shared: [string, Task][] = []
  for (const [name, task] of Object.entries(next.tasks)) {
    shared.push([name, shareTask(tasks[name], task)])
    if (shared.length % 100 === 0) yield
  }
  return { ...next, tasks: Object.fromEntries(shared) }
}

function shareTask(old: Task | undefined, task: Task): Task {
  if (!old) return task
  if (equal(old, task)) return old
  return equal(old.depends, task.depends) ? { ...task, depends: old.depends } : task
}

/** equal compares values of JSON; an absent field equals undefined. */
function equal(a: unknown, b: unknown): boolean {
  if (a === b) return true
  if (typeof a !== 'object' || typeof b !== 'object' || !a || !b || Array.isArray(a) !== Array.isArray(b)) return false
  const left = a as Record<string, unknown>
  const right = b as Record<string, unknown>
  for (const key in left) if (!equal(left[key], right[key])) return false
  for (const key in right) if (right[key] !== undefined && left[key] === undefined) return false
  return true
}

/** How long after an event a run is read again: events have its statuses, but not its steps and times. */
const settleMillis = 500

/** A large run is read again after this many times as long as that takes. */
const dutyFactor = 10

/** Refresh reads runs again after events: not while it is reading already, and less often the longer that takes. */
export class Refresh {
  private readonly runs = new Map<string, { timer?: number; reading: boolean; again: boolean; took: number }>()

  constructor(private readonly queries: QueryClient) {}

  later(id: string) {
    const run = this.runs.get(id) ?? { reading: false, again: false, took: 0 }
    this.runs.set(id, run)
    if (run.reading) {
      run.again = true
      return
    }
    run.timer ??= window.setTimeout(async () => {
      const begun = performance.now()
      run.timer = undefined
      run.reading = true
      try {
        await this.queries.invalidateQueries({ queryKey: ['run', id], exact: true }, { cancelRefetch: false })
      } finally {
        run.reading = false
        run.took = performance.now() - begun
        if (run.again) {
          run.again = false
          this.later(id)
        } else if (!this.queries.getQueryCache().get(hashKey(['run', id]))) {
          this.runs.delete(id)
        }
      }
    }, Math.min(15_000, Math.max(settleMillis, dutyFactor * run.took)))
  }

  close() {
    for (const { timer } of this.runs.values()) window.clearTimeout(timer)
    this.runs.clear()
  }
}
