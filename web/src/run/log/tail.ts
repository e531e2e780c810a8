import { queryOptions, skipToken } from '@tanstack/react-query'

import type { Task } from '../../api/client'
import { fetchTimed } from '../../api/client'
import { ForeignAnswer, problemOf } from '../../api/problem'
import { below } from '../../lib/base'

/** The most lines and bytes of the end of a log that stand beside a failure. */
const maxLines = 10
const maxBytes = 4 << 10

/** The most bytes that are read for them: lines may be long. */
const maxRead = 256 << 10

/** failedStep returns the number of the step that failed first; undefined if none did, as when the environment did not start. */
export function failedStep(task: Pick<Task, 'steps'>): number | undefined {
  const at = task.steps.findIndex((s) => s.status === 'failed')
  return at < 0 ? undefined : at
}

/**
 * tailQuery reads the last lines of the step that failed, or of the whole log of a task. The event of the failure comes before
 * the steps and the cause of it have been read, and may come before the end of the log is stored: it is followed.
 */
export const tailQuery = (run: string, name: string, task: Task) => {
  const step = failedStep(task)
  const query = new URLSearchParams({ attempt: String(task.attempt), tail: String(maxLines), follow: 'true', ...(step === undefined ? {} : { step: String(step) }) })
  return queryOptions({
    queryKey: ['tail', run, name, task.attempt, step],
    staleTime: Number.POSITIVE_INFINITY, // the task has ended
    queryFn: task.status !== 'failed' || task.cause === undefined ? skipToken : async ({ signal }) => {
      const answer = await fetchTimed(below(`/api/v1/runs/${run}/tasks/${encodeURIComponent(name)}/logs?${query}`), { signal, headers: { Accept: 'text/plain' } })
      if (!answer.ok) throw await problemOf(answer)
      if (!answer.headers.get('Content-Type')?.startsWith('text/plain')) throw new ForeignAnswer(answer.status)
      return tailOf(await endOf(answer))
    },
  })
}

/** endOf returns the last bytes of an answer, and nothing of one that is too long. */
async function endOf(answer: Response): Promise<Uint8Array> {
  const reader = answer.body!.getReader()
  let [end, read] = [new Uint8Array(), 0]
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return end
    read += value.length
    if (read > maxRead) {
      void reader.cancel()
      return new Uint8Array()
    }
    const all = new Uint8Array(end.length + value.length)
    all.set(end)
    all.set(value, end.length)
    end = all.subarray(-maxBytes - 1)
  }
}

/** tailOf returns the last lines of the end of a log, without empty ones around them. A line that begins before the end is left out, unless it is the only one. */
export function tailOf(end: Uint8Array): string[] {
  const cut = end.length > maxBytes
  const lines = new TextDecoder().decode(end.subarray(-maxBytes)).split('\n').map(shown)
  while (lines.length > 0 && lines.at(-1)!.trim() === '') lines.pop()
  if (cut && end[0] !== 10) {
    if (lines.length > 1) lines.shift()
    else lines[0] = lines[0]?.replace(/^\uFFFD{1,3}/, '') ?? '' // a character that is cut off
  }
  while (lines.length > 0 && lines[0]!.trim() === '') lines.shift()
  return lines.slice(-maxLines)
}

/** What stands before a carriage return was overwritten, as in a terminal. */
function shown(line: string): string {
  const text = line.replace(/\r+$/, '')
  return text.slice(text.lastIndexOf('\r') + 1)
}
