import type { Section } from './store'

export type Row = { kind: 'head'; section: number } | { kind: 'line'; line: number }

/** Rows are the lines of a log with a head before each section, without the lines of sections that are folded. */
export class Rows {
  readonly length: number
  /** The first row of each section: its head. */
  private readonly heads: number[] = []
  readonly sections: readonly Section[]
  private readonly lines: number
  private readonly folded: ReadonlySet<number>

  /** folded has the first lines of the sections that are folded. */
  constructor(sections: readonly Section[], lines: number, folded: ReadonlySet<number>) {
    this.sections = sections
    this.lines = lines
    this.folded = folded
    let row = 0
    for (let i = 0; i < sections.length; i++) {
      this.heads.push(row)
      row += 1 + (this.isFolded(i) ? 0 : this.linesOf(i))
    }
    this.length = sections.length > 0 ? row : lines
  }

  isFolded(section: number): boolean {
    return this.folded.has(this.sections[section]!.line)
  }

  linesOf(section: number): number {
    return (this.sections[section + 1]?.line ?? this.lines) - this.sections[section]!.line
  }

  at(row: number): Row {
    if (this.sections.length === 0) return { kind: 'line', line: row }
    const section = lastAtMost(this.heads, row)
    const within = row - this.heads[section]!
    return within === 0 ? { kind: 'head', section } : { kind: 'line', line: this.sections[section]!.line + within - 1 }
  }

  /** sectionOf returns the section of a line, and -1 if the log has none. */
  sectionOf(line: number): number {
    return this.sections.length === 0 ? -1 : Math.max(0, lastAtMost(this.sections.map((s) => s.line), line))
  }

  /** headOf returns the row of the head of a section. */
  headOf(section: number): number {
    return this.heads[section] ?? 0
  }

  /** rowOf returns the row of a line; of a line that is folded, the head of its section. */
  rowOf(line: number): number {
    const section = this.sectionOf(line)
    if (section < 0) return line
    return this.headOf(section) + (this.isFolded(section) ? 0 : 1 + line - this.sections[section]!.line)
  }
}

/** lastAtMost returns the index of the last of the ascending numbers that is at most the value, and -1 for none. */
function lastAtMost(numbers: readonly number[], value: number): number {
  let low = 0
  let high = numbers.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (numbers[middle]! <= value) low = middle + 1
    else high = middle
  }
  return low - 1
}
