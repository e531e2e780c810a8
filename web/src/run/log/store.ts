import type { components } from '../../api/schema.gen'
import { GrowingLines, StampedLines, type Line, type Lines } from './lines'

export type LogIndex = components['schemas']['LogIndex']

/** How many lines a part of a log has: what is read, kept and forgotten at once. */
export const partLines = 500

/** How many bytes of a part are read; the lines after them are not shown. */
const maxPart = 4 << 20

/** How many bytes are kept in memory, besides the part that grows. */
const keptBytes = 16 << 20

/** The most sections of a log: the output of later steps belongs to the last one. */
const maxSections = 1_000

/** Section has the lines of a step, up to the next section. */
export interface Section {
  step: number
  line: number
  time: number
}

/** Window says which bytes of a log a part has. */
export interface Window {
  part: number
  offset: number
  length: number
}

const tooLarge: Line = { text: 'not shown: this part of the log has more than 4 MiB; download the log to read it', time: NaN, note: true }

/**
 * LogStore has a log of any length: where each part of it begins, the parts that were looked at last, and the last part,
 * which grows while the task runs. Its memory does not depend on the length of the log, except for a number for each part.
 */
export class LogStore {
  /** Where the parts begin, in bytes. The last one is live. */
  private readonly offsets: number[] = []
  private readonly sectionList: Section[] = []
  /** How many lines the index has. */
  private indexed = 0
  private live = new GrowingLines()
  private readonly parts = new Map<number, Lines>()
  private size = 0

  /** addIndex appends a page of the index. */
  addIndex(page: LogIndex) {
    for (const offset of page.offsets) this.offsets.push(offset)
    for (const s of page.sections) this.section(s.step, s.line, Date.parse(s.time))
    this.indexed = page.lines
  }

  /** The offset of the next byte of the stream, which begins with the last part. */
  get streamed(): number {
    return (this.offsets.at(-1) ?? 0) + this.live.length
  }

  get length(): number {
    return Math.max(this.indexed, this.liveLine + this.live.count)
  }

  get sections(): readonly Section[] {
    return this.sectionList
  }

  /** The first line of the last part. */
  private get liveLine(): number {
    return Math.max(0, this.offsets.length - 1) * partLines
  }

  /** at returns a line, or undefined while its part is not in memory. */
  at(line: number): Line | undefined {
    if (line >= this.liveLine) return this.live.at(line - this.liveLine)
    const part = Math.floor(line / partLines)
    const known = this.parts.get(part)
    return known && (known.at(line - part * partLines) ?? tooLarge)
  }

  /** missing returns the parts of some lines that are not in memory. */
  missing(first: number, last: number): Window[] {
    const out: Window[] = []
    for (let part = Math.max(0, Math.floor(first / partLines)); part <= Math.floor(last / partLines) && part < this.offsets.length - 1; part++) {
      const known = this.parts.get(part)
      if (known) {
        this.parts.delete(part) // what was looked at last is forgotten last
        this.parts.set(part, known)
        continue
      }
      const offset = this.offsets[part]!
      out.push({ part, offset, length: Math.min(maxPart, this.offsets[part + 1]! - offset) })
    }
    return out
  }

  /** fill stores a part that was read, as plain text with timestamps. */
  fill(part: number, bytes: Uint8Array) {
    this.keep(part, new StampedLines(bytes))
  }

  /** add appends output of the stream. */
  add(bytes: Uint8Array, step: number, time: number) {
    if (this.offsets.length === 0) this.offsets.push(0)
    for (let begin = 0; begin < bytes.length;) {
      if (!this.live.open) {
        const line = this.liveLine + this.live.count
        if (line >= this.indexed) this.section(step, line, time) // the stream repeats some indexed lines
      }
      const found = bytes.indexOf(10, begin)
      const end = found < 0 ? bytes.length : found + 1
      this.live.append(bytes.subarray(begin, end), time)
      if (this.live.closed === partLines) {
        const offset = this.streamed
        this.live.trim()
        this.keep(this.offsets.length - 1, this.live)
        this.live = new GrowingLines()
        this.offsets.push(offset)
      }
      begin = end
    }
  }

  private section(step: number, line: number, time: number) {
    if (this.sectionList.at(-1)?.step === step || this.sectionList.length === maxSections) return
    this.sectionList.push({ step, line, time })
  }

  private keep(part: number, lines: Lines) {
    this.size += lines.size - (this.parts.get(part)?.size ?? 0)
    this.parts.delete(part)
    this.parts.set(part, lines)
    for (const [oldest, { size }] of this.parts) {
      if (this.size <= keptBytes || this.parts.size <= 4) break
      this.parts.delete(oldest)
      this.size -= size
    }
  }
}
