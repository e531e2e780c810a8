import type { Task } from '../api/client'
import { kindOf, statusOrder, type Kind } from '../lib/status'

/** TaskFilters are those of the table, as the URL has them. */
export interface TaskFilters {
  search?: string
  status?: Kind[]
  sort?: string
}

const sorts = ['number', 'name', 'status', 'executor', 'started', 'duration'] as const

/** taskFiltersOf reads the filters of a URL. */
export function taskFiltersOf(search: Readonly<Record<string, unknown>>): TaskFilters {
  const statuses = (Array.isArray(search.status) ? search.status : [search.status]).filter((s): s is Kind => statusOrder.includes(s as Kind))
  const sort = typeof search.sort === 'string' && sorts.some((s) => s === (search.sort as string).replace(/^-/, '')) ? search.sort : undefined
  return {
    search: typeof search.search === 'string' || typeof search.search === 'number' ? String(search.search) || undefined : undefined,
    status: statuses.length > 0 ? [...new Set(statuses)] : undefined,
    sort,
  }
}

export interface TaskRow {
  name: string
  task: Task
}

const collator = new Intl.Collator(undefined, { numeric: true })

/** rowsOf returns the tasks that match, sorted. now is for the durations of tasks that run. */
export function rowsOf(tasks: Readonly<Record<string, Task>>, filters: TaskFilters, now: number): TaskRow[] {
  const needle = filters.search?.toLowerCase()
  const status = filters.status && new Set(filters.status)
  const rows: TaskRow[] = []
  for (const [name, task] of Object.entries(tasks)) {
    if (status && !status.has(kindOf(task))) continue
    if (needle && ![name, task.reason, task.executor, task.pool].some((t) => t.toLowerCase().includes(needle))) continue
    rows.push({ name, task })
  }
  const by = filters.sort?.replace(/^-/, '') ?? 'number'
  const sign = filters.sort?.startsWith('-') ? -1 : 1
  const compare = comparison(by, now)
  return rows.sort((a, b) => sign * compare(a, b) || a.task.number - b.task.number)
}

function comparison(by: string, now: number): (a: TaskRow, b: TaskRow) => number {
  switch (by) {
    case 'name': return (a, b) => collator.compare(a.name, b.name)
    case 'status': return (a, b) => statusOrder.indexOf(kindOf(a.task)) - statusOrder.indexOf(kindOf(b.task))
    case 'executor': return (a, b) => collator.compare(a.task.executor, b.task.executor)
    case 'started': return (a, b) => time(a.task.started_at) - time(b.task.started_at)
    case 'duration': return (a, b) => elapsed(a.task, now) - elapsed(b.task, now)
    default: return (a, b) => a.task.number - b.task.number
  }
}

/** What has not begun comes last. */
const time = (at: string | undefined) => (at ? Date.parse(at) : Number.MAX_SAFE_INTEGER)

const elapsed = (t: Task, now: number) => (t.started_at ? (t.ended_at ? Date.parse(t.ended_at) : now) - Date.parse(t.started_at) : -1)

/** slotsOf says whether a task holds slots of its change groups: from when it is queued until it has ended. While it waits for them, its reason says so. */
export const slotsOf = (t: Pick<Task, 'status' | 'changegroups'>) => (t.changegroups && (t.status === 'queued' || t.status === 'running') ? 'holds its slots' : undefined)
