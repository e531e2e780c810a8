import { problemOf } from '../../api/problem'
import { below } from '../../lib/base'

const part = encodeURIComponent

/** artifactPath returns the path of an artifact, or of one file in it. */
export function artifactPath(run: string, task: string, name: string, path?: string): string {
  const artifact = below(`/api/v1/runs/${part(run)}/artifacts/${part(task)}/${part(name)}`)
  return path === undefined ? artifact : `${artifact}?path=${part(path)}`
}

/** readFile reads at most max bytes of a file, and says whether there are more. */
export async function readFile(url: string, max: number, signal?: AbortSignal): Promise<{ content: Uint8Array<ArrayBuffer>; more: boolean }> {
  const stop = new AbortController()
  const answer = await fetch(url, { signal: signal ? AbortSignal.any([signal, stop.signal]) : stop.signal })
  if (!answer.ok) throw await problemOf(answer)
  const chunks: Uint8Array[] = []
  let size = 0
  const reader = answer.body!.getReader()
  for (;;) {
    const { done, value } = await reader.read()
    if (done) break
    chunks.push(value)
    size += value.length
    if (size > max) break
  }
  const more = size > max
  if (more) stop.abort()
  const content = new Uint8Array(Math.min(size, max))
  let at = 0
  for (const chunk of chunks) {
    content.set(chunk.subarray(0, content.length - at), at)
    at += Math.min(chunk.length, content.length - at)
  }
  return { content, more }
}
