/** The longest pause before another attempt. */
const longest = 15_000

/** pauseAfter returns how long to wait after so many failures in a row. */
export const pauseAfter = (failures: number) => Math.min(longest, 500 * 2 ** (failures - 1))
