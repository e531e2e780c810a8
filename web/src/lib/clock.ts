/** A bound of what the clock of the server shows, in milliseconds ahead of the browser's monotonic clock. */
interface Bounds { least: number; most: number }

/** Clock is the server's time: that of the browser may be wrong by hours, and change while the page is open. */
export class Clock {
  private bounds?: Bounds

  /** monotonic is a clock that is never set. */
  constructor(private readonly monotonic: () => number, private readonly wall: () => number) {}

  /**
   * observe notes the time of an answer, which has whole seconds: it was made between the request and the answer. Further
   * answers narrow the bounds. If they contradict each other, a clock was set, and the last one counts.
   */
  observe(date: string | null, requested: number) {
    const at = date === null ? Number.NaN : Date.parse(date)
    if (Number.isNaN(at)) return
    const seen = { least: at - this.monotonic(), most: at + 1000 - requested }
    const both = this.bounds && { least: Math.max(seen.least, this.bounds.least), most: Math.min(seen.most, this.bounds.most) }
    this.bounds = both && both.least <= both.most ? both : seen
  }

  now(): number {
    return this.bounds ? this.monotonic() + (this.bounds.least + this.bounds.most) / 2 : this.wall()
  }
}

/** clock is the clock of the server that serves the page. Until it has answered, it is that of the browser. */
export const clock = new Clock(() => performance.now(), () => Date.now())
