import { diffLines } from 'diff'

/** A DiffLine is a line of one or both texts, or a fold of equal lines. */
export type DiffLine =
  | { kind: ' ' | '+' | '-'; text: string; before?: number; after?: number }
  | { kind: 'fold'; lines: DiffLine[] }

/** Equal lines that are shown around changes. */
const context = 3
/** A comparison that takes longer is given up: the texts have little in common. */
const timeout = 3000

/** diffOf compares two texts by lines, or returns nothing if they differ too much. */
export function diffOf(before: string, after: string): DiffLine[] | undefined {
  const parts = diffLines(before, after, { timeout })
  if (!parts) return undefined
  const lines: DiffLine[] = []
  let a = 0
  let b = 0
  for (const part of parts) {
    const texts = part.value.split('\n')
    if (texts.at(-1) === '') texts.pop()
    for (const text of texts) {
      if (part.added) lines.push({ kind: '+', text, after: ++b })
      else if (part.removed) lines.push({ kind: '-', text, before: ++a })
      else lines.push({ kind: ' ', text, before: ++a, after: ++b })
    }
  }
  return lines
}

/** fold hides equal lines that are far from a change. */
export function fold(lines: readonly DiffLine[]): DiffLine[] {
  const near = new Uint8Array(lines.length)
  for (let i = 0; i < lines.length; i++) {
    if (lines[i]!.kind === ' ') continue
    near.fill(1, Math.max(0, i - context), i + context + 1)
  }
  const folded: DiffLine[] = []
  for (let i = 0; i < lines.length;) {
    if (near[i]) {
      folded.push(lines[i++]!)
      continue
    }
    const from = i
    while (i < lines.length && !near[i]) i++
    // A fold of one line would take as much space as the line.
    if (i - from === 1) folded.push(lines[from]!)
    else folded.push({ kind: 'fold', lines: lines.slice(from, i) })
  }
  return folded
}
