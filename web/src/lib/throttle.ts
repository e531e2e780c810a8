import { useEffect, useRef, useState } from 'react'

/** throttle returns a function that calls another at once, and then at most once in some time. No call is lost. */
export function throttle(call: () => void, millis: number): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined
  let again = false
  return function next() {
    if (timer !== undefined) {
      again = true
      return
    }
    call()
    timer = setTimeout(() => {
      timer = undefined
      if (!again) return
      again = false
      next()
    }, millis)
  }
}

/** useThrottled returns a value that follows another, at most once in some time. */
export function useThrottled<T>(value: T, millis: number): T {
  const [shown, setShown] = useState(value)
  const last = useRef(Number.NEGATIVE_INFINITY)
  useEffect(() => {
    const wait = Math.max(0, last.current + millis - performance.now())
    const timer = setTimeout(() => {
      last.current = performance.now()
      setShown(value)
    }, wait)
    return () => clearTimeout(timer)
  }, [value, millis])
  return shown
}
