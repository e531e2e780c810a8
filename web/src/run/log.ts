/** LogLines collects the output of a task as lines. It keeps the last ones, within a bound of characters. */
export class LogLines {
  private lines: string[] = []
  private open = ''
  private size = 0
  /** The number of lines that were dropped at the start. */
  dropped = 0

  constructor(private readonly limit = 48 << 20) {}

  get length(): number {
    return this.lines.length + (this.open === '' ? 0 : 1)
  }

  at(index: number): string {
    return this.lines[index] ?? this.open
  }

  /** add appends output. A carriage return within a line replaces what stands before it, as in a terminal. */
  add(text: string) {
    const parts = (this.open + text).split('\n')
    this.open = parts.pop()!
    for (const part of parts) {
      const line = part.endsWith('\r') ? part.slice(0, -1) : part
      this.lines.push(line.slice(line.lastIndexOf('\r') + 1))
      this.size += line.length
    }
    if (this.size <= this.limit) return
    let n = 0
    while (this.size > this.limit * 0.9) this.size -= this.lines[n++]!.length
    this.lines = this.lines.slice(n)
    this.dropped += n
  }
}
