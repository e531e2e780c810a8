const units = [['d', 86_400], ['h', 3_600], ['min', 60], ['s', 1]] as const
const seconds: Record<string, number> = { h: 3_600, m: 60, s: 1, ms: 1e-3, us: 1e-6, 'µs': 1e-6, ns: 1e-9 }

/** span prints a duration of the API, such as 720h0m0s, in units that people read: 30 d. */
export function span(duration: string): string {
  let left = 0
  for (const [, number, unit] of duration.matchAll(/([\d.]+)(h|ms|m|us|µs|ns|s)/g)) left += Number(number) * seconds[unit!]!
  if (!(left >= 1)) return duration
  const parts: string[] = []
  for (const [name, size] of units) {
    const n = size === 1 ? Math.round(left * 1000) / 1000 : Math.floor(left / size)
    if (n > 0) parts.push(`${n} ${name}`)
    left -= n * size
  }
  return parts.join(' ')
}
