/** How long a slice of work takes at most, in milliseconds: a frame has room for it beside everything else. */
export const sliceMillis = 8

/** slice continues some work for a part of a frame. It returns whether the work is done. */
export function slice(work: Iterator<unknown>, clock: () => number = () => performance.now(), millis = sliceMillis): boolean {
  const end = clock() + millis
  do {
    if (work.next().done) return true
  } while (clock() < end)
  return false
}

/** finish does all of some work at once, and returns its result. */
export function finish<T>(work: Iterator<unknown, T>): T {
  for (;;) {
    const { done, value } = work.next()
    if (done) return value as T
  }
}

/** inSlices does some work in slices, between which the page draws and answers its reader. It returns undefined after an abort. */
export async function inSlices<T>(work: Iterator<unknown, T>, signal?: AbortSignal): Promise<T | undefined> {
  let result: T | undefined
  const kept: Iterator<unknown> = {
    next() {
      const step = work.next()
      if (step.done) result = step.value
      return step
    },
  }
  while (!signal?.aborted && !slice(kept)) await turn()
  return signal?.aborted ? undefined : result
}

/** How long to wait for a frame, in milliseconds: a hidden page has none. */
const frameMillis = 100

/** frame waits for the next frame, or a time if there is none. */
export function frame(): Promise<void> {
  return new Promise((done) => {
    const timer = setTimeout(done, frameMillis)
    requestAnimationFrame(() => {
      clearTimeout(timer)
      done()
    })
  })
}

/** turn waits until the browser had its turn. Unlike timers and frames, it is as fast on a page that is hidden. */
export function turn(): Promise<void> {
  return new Promise((done) => {
    const { port1, port2 } = new MessageChannel()
    port1.onmessage = () => {
      port1.close()
      done()
    }
    port2.postMessage(undefined)
  })
}
