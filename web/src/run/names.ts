import { baseOf } from './graph/graph'

/** Names up to this length are shown as they are. */
const fits = 24

/**
 * shortNames returns what lists show of long names of a matrix or foreach: the values in which they differ, without keys.
 * Of `build[ARCH=arm64,OS=linux,GO=1.26]` and `build[ARCH=amd64,OS=linux,GO=1.26]` these are `build[arm64]` and `build[amd64]`.
 */
export function shortNames(names: Iterable<string>): ReadonlyMap<string, string> {
  const byBase = new Map<string, string[]>()
  for (const name of names) {
    const base = baseOf(name)
    if (base === name || !name.endsWith(']')) continue
    const of = byBase.get(base)
    if (of) of.push(name)
    else byBase.set(base, [name])
  }
  const short = new Map<string, string>()
  for (const [base, of] of byBase) {
    if (of.length < 2 || of.every((name) => name.length <= fits)) continue
    const parts = of.map((name) => name.slice(base.length + 1, -1).split(',').map((part) => /^(\w+)=(.*)$/.exec(part)))
    const keys = parts[0]!.map((part) => part?.[1])
    // A value with a comma, or elements of a foreach: the name is not taken apart.
    if (parts.some((p) => p.length !== keys.length || p.some((part, i) => !part || part[1] !== keys[i]))) continue
    const differ = keys.flatMap((_, i) => (parts.some((p) => p[i]![2] !== parts[0]![i]![2]) ? [i] : []))
    for (const [at, name] of of.entries()) short.set(name, `${base}[${differ.map((i) => parts[at]![i]![2]).join(',')}]`)
  }
  return short
}
