/** grow returns the cards of the next frame: those that are shown and still wanted, and at most some of the others. It returns the shown ones if nothing changes. */
export function grow(shown: readonly number[], wanted: readonly number[], atOnce: number): readonly number[] {
  const had = new Set(shown)
  let added = 0
  const next = wanted.filter((node) => had.has(node) || added++ < atOnce)
  return next.length === shown.length && added === 0 && next.every((node, i) => node === shown[i]) ? shown : next
}
