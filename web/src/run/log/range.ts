/** Range is some lines of a log, from 1. */
export interface Range {
  first: number
  last: number
}

/** parseRange reads the fragment of a page's address, such as L12 or L12-L20. */
export function parseRange(hash: string): Range | undefined {
  const found = /^#?L(\d{1,12})(?:-L?(\d{1,12}))?$/.exec(hash)
  if (!found) return undefined
  const a = Number(found[1])
  const b = Number(found[2] ?? found[1])
  if (a < 1 || b < 1) return undefined
  return { first: Math.min(a, b), last: Math.max(a, b) }
}

export function formatRange({ first, last }: Range): string {
  return first === last ? `L${first}` : `L${first}-L${last}`
}
