import type { Phase, Result } from '../api/client'

/** RunFilters are the filters of the list, as the URL has them. */
export interface RunFilters {
  phase?: string[]
  result?: string[]
  group?: string
  changegroup?: string
  annotation?: string
  input?: string
  name?: string
  created_by?: string
  /** Runs that the user created, instead of those of created_by. */
  mine?: true
  /** Runs that succeeded with warnings, instead of those of result. */
  warnings?: true
  created_after?: string
  created_before?: string
  order?: 'asc'
}

export const phases: readonly Phase[] = ['queued', 'running', 'finished', 'cancelled', 'setup_error']
export const results: readonly Result[] = ['success', 'failed', 'stopped']

const text = (value: unknown) => (typeof value === 'string' || typeof value === 'number' ? String(value) : undefined)

/** known keeps the values that the API takes: a URL that a user wrote must not break the page. */
function known(value: unknown, of: readonly string[]): string[] | undefined {
  const list = (Array.isArray(value) ? value : [value]).filter((v): v is string => typeof v === 'string' && of.includes(v))
  return list.length > 0 ? [...new Set(list)] : undefined
}

/** A day or a time; a day without a time is one of the user's time zone. */
function time(value: unknown): string | undefined {
  const t = text(value)
  return t !== undefined && !Number.isNaN(Date.parse(t)) ? t : undefined
}

/** filtersOf reads the filters of a URL. */
export function filtersOf(search: Readonly<Record<string, unknown>>): RunFilters {
  return {
    phase: known(search.phase, phases), result: known(search.result, results), group: text(search.group), changegroup: text(search.changegroup),
    annotation: text(search.annotation), input: text(search.input), warnings: search.warnings === true || undefined, name: text(search.name), created_by: search.mine === true ? undefined : text(search.created_by), mine: search.mine === true || undefined,
    created_after: time(search.created_after), created_before: time(search.created_before), order: search.order === 'asc' ? 'asc' : undefined,
  }
}

/** queryOf returns the filters as the API takes them. */
export function queryOf(filters: RunFilters) {
  const list = (value: string | undefined) => (value ? [value] : undefined)
  const at = (value: string | undefined) => (value ? [new Date(value.length === 10 ? `${value}T00:00:00` : value).toISOString()] : undefined)
  return {
    phase: filters.phase as Phase[] | undefined, result: filters.result as Result[] | undefined, group: list(filters.group), changegroup: list(filters.changegroup),
    annotation: list(filters.annotation), input: list(filters.input), warnings: filters.warnings, name: list(filters.name), created_by: list(filters.created_by), mine: filters.mine,
    created_after: at(filters.created_after), created_before: at(filters.created_before), order: filters.order,
  }
}

/** isFiltered says whether filters hide runs; the order hides none. */
export const isFiltered = ({ order: _, ...filters }: RunFilters) => Object.values(filters).some((v) => v !== undefined)
