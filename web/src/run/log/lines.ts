/** The longest line that is shown, in characters. */
const maxLine = 10_000

/** How many bytes of a line are kept. */
const keptBytes = 20_000

/** The time before each line of plain text with timestamps, in bytes. */
const stampBytes = '2006-01-02T15:04:05.000000000Z '.length

const newline = 10

export interface Line {
  text: string
  /** When the line began, in milliseconds. */
  time: number
  /** The text is about the line, which is not in memory. */
  note?: boolean
}

/** Lines are some consecutive lines of a log. A line is decoded when it is shown: most never are. */
export interface Lines {
  readonly count: number
  /** How many bytes of memory they take, about. */
  readonly size: number
  at(i: number): Line | undefined
}

const decoder = new TextDecoder()

/** decode returns the text of a line. What stands before a carriage return was overwritten, as in a terminal. */
function decode(bytes: Uint8Array): string {
  const line = decoder.decode(bytes.subarray(0, keptBytes)).replace(/\r+$/, '')
  const shown = line.slice(line.lastIndexOf('\r') + 1)
  return shown.length > maxLine || bytes.length >= keptBytes ? `${shown.slice(0, maxLine)} … (the line is longer)` : shown
}

/** StampedLines are lines that were read as plain text with timestamps. */
export class StampedLines implements Lines {
  private readonly starts: number[] = []
  private readonly bytes: Uint8Array

  constructor(bytes: Uint8Array) {
    this.bytes = bytes
    for (let begin = 0; begin < bytes.length;) {
      this.starts.push(begin)
      const end = bytes.indexOf(newline, begin)
      if (end < 0) break
      begin = end + 1
    }
  }

  get count(): number {
    return this.starts.length
  }

  get size(): number {
    return this.bytes.length + 8 * this.starts.length
  }

  at(i: number): Line | undefined {
    const begin = this.starts[i]
    if (begin === undefined) return undefined
    let end = this.starts[i + 1] ?? this.bytes.length
    if (this.bytes[end - 1] === newline) end--
    const text = begin + stampBytes
    return { text: decode(this.bytes.subarray(Math.min(end, text), end)), time: Date.parse(decoder.decode(this.bytes.subarray(begin, text - 1))) }
  }
}

/** GrowingLines are the last lines of a log, of which the last may be unfinished. */
export class GrowingLines implements Lines {
  private bytes = new Uint8Array(1 << 14)
  private used = 0
  private readonly starts: number[] = []
  private readonly times: number[] = []
  /** The last line is unfinished. */
  open = false
  /** How many bytes of the log they are. */
  length = 0

  get count(): number {
    return this.starts.length
  }

  /** How many lines have their end. */
  get closed(): number {
    return this.starts.length - (this.open ? 1 : 0)
  }

  get size(): number {
    return this.bytes.length + 16 * this.starts.length
  }

  /** append adds a line, or a part of it, with its line break if it has one. */
  append(piece: Uint8Array, time: number) {
    if (!this.open) {
      this.starts.push(this.used)
      this.times.push(time)
    }
    this.length += piece.length
    this.open = piece.at(-1) !== newline
    const kept = this.open ? piece : piece.subarray(0, -1)
    this.keep(kept.subarray(0, Math.max(0, keptBytes - (this.used - this.starts.at(-1)!))))
  }

  private keep(piece: Uint8Array) {
    if (this.used + piece.length > this.bytes.length) {
      const grown = new Uint8Array(Math.max(2 * this.bytes.length, this.used + piece.length))
      grown.set(this.bytes.subarray(0, this.used))
      this.bytes = grown
    }
    this.bytes.set(piece, this.used)
    this.used += piece.length
  }

  /** trim gives back the memory for lines to come. */
  trim() {
    this.bytes = this.bytes.slice(0, this.used)
  }

  at(i: number): Line | undefined {
    const begin = this.starts[i]
    if (begin === undefined) return undefined
    return { text: decode(this.bytes.subarray(begin, this.starts[i + 1] ?? this.used)), time: this.times[i]! }
  }
}
