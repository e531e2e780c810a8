import type { Event } from '../api/client'

/**
 * waitingChanges tells which events may change the list of the tasks that wait for approval: those of runs with a task
 * that begins to wait, or is on the list. All pages have the header that counts these tasks, so it must not read again
 * with every event.
 */
export function waitingChanges() {
  let listed: ReadonlySet<string> | undefined
  // The runs whose tasks began to wait since the last page arrived: the page may have been read before.
  let begun = new Set<string>()
  return {
    changes(e: Pick<Event, 'type' | 'run'>): boolean {
      if (e.type === 'approval_wanted') {
        begun.add(e.run)
        return true
      }
      return !listed || listed.has(e.run) || begun.has(e.run)
    },
    /** arrived takes the runs of a page that was read. */
    arrived(runs: Iterable<string>) {
      listed = new Set([...runs, ...begun])
      begun = new Set()
    },
  }
}
