import { frame, sliceMillis } from '../lib/slices'
import { ForeignAnswer, problemOf } from './problem'

/** A Message is an event of a stream, or its position after events that it left out, which has no type and no data. */
export interface Message {
  type: string
  data: string
  /** The id of the last event that had one, with which the stream is resumed. */
  id: string
}

/** The most characters of an event. A longer one is none of the gateway. */
const maxEvent = 8 << 20

/** The gateway sends something at least every 15 seconds. A stream that is silent for longer is dead, which a browser does not notice. */
const silentMillis = 50_000

/** A stream that lasts as long as this was no failure. */
const steadyMillis = 10_000

/** Parser reads server-sent events. What is cut off at the end of a stream is no event. */
export class Parser {
  private rest = ''
  private size = 0
  private type = ''
  private data: string[] = []
  private moved = false

  constructor(private id = '', private readonly most = maxEvent) {}

  /** read yields the messages that end in the next text of the stream. It throws if an event does not end. */
  *read(text: string): Generator<Message> {
    const lines = (this.rest + text).split('\n')
    this.rest = lines.pop()!
    for (const line of lines) {
      const message = this.line(line.endsWith('\r') ? line.slice(0, -1) : line)
      if (message) yield message
    }
    if (this.size + this.rest.length > this.most) throw new Error('The stream has an event without an end.')
  }

  private line(line: string): Message | undefined {
    this.size += line.length + 1
    if (line === '') return this.end()
    const colon = line.indexOf(':')
    if (colon === 0) return undefined // a comment
    const name = colon < 0 ? line : line.slice(0, colon)
    const value = colon < 0 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1)
    if (name === 'event') this.type = value
    if (name === 'data') this.data.push(value)
    if (name === 'id' && !value.includes('\0')) {
      this.id = value
      this.moved = true
    }
    return undefined
  }

  private end(): Message | undefined {
    const { type, data, moved, id } = this
    this.type = ''
    this.data = []
    this.size = 0
    this.moved = false
    if (data.length > 0) return { type: type || 'message', data: data.join('\n'), id }
    return moved ? { type: '', data: '', id } : undefined
  }
}

interface Handlers {
  onOpen: () => void
  onMessage: (message: Message) => void
  /** Called once when the stream has ended or was refused, with the reason if there is one, and whether it lasted for a while. */
  onEnd: (error: unknown, steady: boolean) => void
  /** Read the stream in slices, one a frame. The gateway waits meanwhile, so what is not read yet takes no memory here. */
  paced?: boolean
}

/**
 * openStream reads a stream of events until it ends, or the returned function is called. Unlike an EventSource it tells why
 * the gateway refused the stream, notices that the connection is dead, and bounds what an event may have.
 */
export function openStream(address: string | URL, { onOpen, onMessage, onEnd, paced = false }: Handlers, lastEventID = ''): () => void {
  const abort = new AbortController()
  let closed = false
  let opened = Number.POSITIVE_INFINITY
  let silence: ReturnType<typeof setTimeout> | undefined
  const alive = () => {
    clearTimeout(silence)
    silence = setTimeout(() => abort.abort(new Error('The stream is silent.')), silentMillis)
  }
  const read = async () => {
    const headers = { Accept: 'text/event-stream', ...(lastEventID && { 'Last-Event-ID': lastEventID }) }
    const answer = await fetch(address, { signal: abort.signal, cache: 'no-store', headers })
    if (!answer.ok) throw await problemOf(answer)
    if (!answer.body || !answer.headers.get('Content-Type')?.startsWith('text/event-stream')) throw new ForeignAnswer(answer.status)
    if (closed) return
    opened = performance.now()
    onOpen()
    const parser = new Parser(lastEventID)
    let slice = performance.now() + sliceMillis
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader()
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      alive()
      for (const message of parser.read(part.value)) {
        if (closed) return
        onMessage(message)
        if (!paced || performance.now() < slice) continue
        await frame()
        slice = performance.now() + sliceMillis
      }
    }
  }
  const end = (error: unknown) => {
    clearTimeout(silence)
    if (closed) return
    closed = true
    abort.abort() // what was answered and is not read
    onEnd(error, performance.now() - opened > steadyMillis)
  }
  alive()
  read().then(() => end(undefined), end)
  return () => {
    closed = true
    clearTimeout(silence)
    abort.abort()
  }
}
