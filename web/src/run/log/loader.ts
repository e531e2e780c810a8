import { ForeignAnswer, isTemporary, problemOf } from '../../api/problem'
import type { LogStore, Window } from './store'

/** How many lines beyond those in view are read ahead. */
const ahead = 200

/** How long a part must be in view before it is read: a reader who drags the scroll bar passes most parts. */
const settleMillis = 40

/** How long after a failure a part is read again, if it is still in view. */
const retryMillis = 2_000

/** PartLoader reads the parts of a log that are in view, and gives up those that no longer are. */
export class PartLoader {
  private readonly reading = new Map<number, AbortController>()
  private wanted: Window[] = []
  private timer = 0

  private readonly store: LogStore
  private readonly address: (window: Window) => string
  private readonly onRead: () => void
  private readonly onFailure: (error: unknown) => void

  /** address returns where the bytes of a part are. */
  constructor(store: LogStore, address: (window: Window) => string, onRead: () => void, onFailure: (error: unknown) => void) {
    this.store = store
    this.address = address
    this.onRead = onRead
    this.onFailure = onFailure
  }

  /** want says which lines are in view. */
  want(first: number, last: number) {
    const before = this.wanted
    this.wanted = this.store.missing(Math.max(0, first - ahead), last + ahead)
    // The view is drawn again while nothing of it moves: that must not put off the reading.
    if (before.map((w) => w.part).join() === this.wanted.map((w) => w.part).join()) return
    for (const [part, abort] of this.reading) {
      if (this.wanted.some((w) => w.part === part)) continue
      abort.abort()
      this.reading.delete(part)
    }
    this.later(settleMillis)
  }

  close() {
    window.clearTimeout(this.timer)
    for (const abort of this.reading.values()) abort.abort()
    this.reading.clear()
  }

  private later(millis: number) {
    window.clearTimeout(this.timer)
    if (this.wanted.length > 0) this.timer = window.setTimeout(() => this.start(), millis)
  }

  private start() {
    for (const w of this.wanted) {
      if (!this.reading.has(w.part)) void this.read(w)
    }
  }

  private async read(w: Window) {
    const abort = new AbortController()
    this.reading.set(w.part, abort)
    try {
      const answer = await fetch(this.address(w), { signal: abort.signal, headers: { Accept: 'text/plain' } })
      if (!answer.ok) throw await problemOf(answer)
      if (!answer.headers.get('Content-Type')?.startsWith('text/plain')) throw new ForeignAnswer(answer.status)
      this.store.fill(w.part, new Uint8Array(await answer.arrayBuffer()))
      this.wanted = this.wanted.filter(({ part }) => part !== w.part)
      this.onRead()
    } catch (error) {
      if (abort.signal.aborted) return
      this.onFailure(error)
      if (isTemporary(error)) this.later(retryMillis)
    } finally {
      if (this.reading.get(w.part) === abort) this.reading.delete(w.part)
    }
  }
}
