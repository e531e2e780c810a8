/** How many lines a part of a log has. */
export const partLines = 1000

/** How many parts are kept in memory, besides the one that grows. */
const keptParts = 40

/** The longest line that is shown, in characters. */
const maxLine = 10_000

export interface LogIndex {
  lines: number
  bytes: number
  every: number
  offsets: number[]
}

/**
 * LogStore has a log of any length: where each part of it begins, the parts that were looked at last, and the last part,
 * which grows while the task runs. Its memory does not depend on the length of the log.
 */
export class LogStore {
  /** Where the parts begin, in bytes. The last one is live. */
  readonly offsets: number[]
  readonly every: number
  private live: string[] = []
  private open = new Uint8Array(0)
  private next: number
  private readonly parts = new Map<number, string[]>()
  private readonly decoder = new TextDecoder()

  constructor(index: LogIndex) {
    this.every = index.every
    this.offsets = index.offsets.length > 0 ? index.offsets : [0]
    this.next = this.offsets.at(-1)!
  }

  /** The offset at which the live part begins: what follows comes from the stream. */
  get liveOffset(): number {
    return this.offsets.at(-1)!
  }

  get length(): number {
    return (this.offsets.length - 1) * this.every + this.live.length + (this.open.length > 0 ? 1 : 0)
  }

  /** at returns a line, or undefined while its part is not in memory. */
  at(line: number): string | undefined {
    const part = Math.floor(line / this.every)
    const within = line - part * this.every
    if (part === this.offsets.length - 1) return this.live[within] ?? this.text(this.open)
    return this.parts.get(part)?.[within]
  }

  /** missing returns the parts of some lines that are not in memory, with their bytes. */
  missing(first: number, last: number): { part: number; offset: number; length: number }[] {
    const out = []
    for (let part = Math.floor(first / this.every); part <= Math.floor(last / this.every) && part < this.offsets.length - 1; part++) {
      if (!this.parts.has(part)) out.push({ part, offset: this.offsets[part]!, length: this.offsets[part + 1]! - this.offsets[part]! })
    }
    return out
  }

  /** fill stores a part that was read. */
  fill(part: number, bytes: Uint8Array) {
    const lines: string[] = []
    let begin = 0
    for (let end = bytes.indexOf(10); end >= 0; end = bytes.indexOf(10, begin)) {
      lines.push(this.text(bytes.subarray(begin, end)))
      begin = end + 1
    }
    if (begin < bytes.length) lines.push(this.text(bytes.subarray(begin)))
    this.keep(part, lines)
  }

  /** add appends output of the stream. */
  add(bytes: Uint8Array) {
    let begin = 0
    for (let end = bytes.indexOf(10); end >= 0; end = bytes.indexOf(10, begin)) {
      const line = join(this.open, bytes.subarray(begin, end))
      this.open = new Uint8Array(0)
      this.live.push(this.text(line))
      this.next += line.length + 1
      begin = end + 1
      if (this.live.length === this.every) {
        this.keep(this.offsets.length - 1, this.live)
        this.offsets.push(this.next)
        this.live = []
      }
    }
    this.open = join(this.open, bytes.subarray(begin))
  }

  private keep(part: number, lines: string[]) {
    this.parts.delete(part)
    this.parts.set(part, lines)
    for (const oldest of this.parts.keys()) {
      if (this.parts.size <= keptParts) break
      this.parts.delete(oldest)
    }
  }

  /** text decodes a line. What stands before a carriage return was overwritten, as in a terminal. */
  private text(bytes: Uint8Array): string {
    const line = this.decoder.decode(bytes.subarray(0, 4 * maxLine)).replace(/\r+$/, '')
    const shown = line.slice(line.lastIndexOf('\r') + 1)
    return shown.length > maxLine ? `${shown.slice(0, maxLine)} … (the line is longer)` : shown
  }
}

function join(a: Uint8Array, b: Uint8Array): Uint8Array<ArrayBuffer> {
  const out = new Uint8Array(a.length + b.length)
  out.set(a)
  out.set(b, a.length)
  return out
}
