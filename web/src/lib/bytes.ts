/** bytes prints a size in the unit that fits. */
export function bytes(n: number): string {
  if (n < 1024) return `${n} B`
  const units = ['KiB', 'MiB', 'GiB', 'TiB']
  let i = -1
  do {
    n /= 1024
    i++
  } while (n >= 1023.95 && i < units.length - 1)
  return `${n.toFixed(n < 10 ? 1 : 0)} ${units[i]}`
}
