/** Labels shows the labels of an executor, a pool or a fleet. */
export function Labels({ of }: { of: Readonly<Record<string, string>> | undefined }) {
  const entries = Object.entries(of ?? {}).sort(([a], [b]) => a.localeCompare(b))
  if (entries.length === 0) return <span className="muted">none</span>
  return <span className="labels">{entries.map(([key, value]) => <span key={key}>{key}={value}</span>)}</span>
}
