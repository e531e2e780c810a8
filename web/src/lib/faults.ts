/** faultsOf divides faults into those of some fields below a path, by their names, and all others. */
export function faultsOf<F extends { path: string; detail: string }>(faults: readonly F[], path: string, isField: (name: string) => boolean): { fields: ReadonlyMap<string, string>; others: readonly F[] } {
  const fields = new Map<string, string>()
  const others = faults.filter((f) => {
    const name = f.path.startsWith(`${path}.`) ? f.path.slice(path.length + 1) : ''
    if (name === '' || !isField(name)) return true
    fields.set(name, f.detail)
    return false
  })
  return { fields, others }
}

/** unchanged returns the faults of fields that have the values which were sent. */
export function unchanged(faults: ReadonlyMap<string, string>, sent: Readonly<Record<string, string>>, now: Readonly<Record<string, string>>): ReadonlyMap<string, string> {
  return new Map([...faults].filter(([name]) => (now[name] ?? '') === (sent[name] ?? '')))
}
