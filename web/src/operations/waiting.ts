import type { Event } from '../api/client'

/** A Place is a task of a run. */
interface Place { run: string; task: string }

const keyOf = (of: Place) => `${of.run}/${of.task}`

/**
 * waitingChanges tells which events may change the list of the tasks that wait for approval: those of a task that begins to
 * wait, or is on the list, and those of its run. All pages have the header that counts these tasks, so it must not read again
 * with every event.
 */
export function waitingChanges() {
  let listed: ReadonlyMap<string, Place> | undefined
  // The tasks that began to wait since the last page arrived: the page may have been read before.
  let begun = new Map<string, Place>()
  return {
    changes({ type, run, task, status }: Pick<Event, 'type' | 'run' | 'task' | 'status'>): boolean {
      if (type === 'run') return !listed || [...listed.values(), ...begun.values()].some((of) => of.run === run)
      if (type !== 'task' || task === undefined) return false
      const of = { run, task }
      if (status === 'waiting_approval') {
        begun.set(keyOf(of), of)
        return true
      }
      return !listed || listed.has(keyOf(of)) || begun.has(keyOf(of))
    },
    /** arrived takes the tasks of a page that was read. */
    arrived(tasks: readonly Place[]) {
      listed = new Map([...tasks.map((of): [string, Place] => [keyOf(of), of]), ...begun])
      begun = new Map()
    },
  }
}
