import { statusLabels, statusOrder, statusSigns, type Counts, type Kind } from '../lib/status'

export function StatusBadge({ kind, label }: { kind: Kind; label?: string }) {
  return (
    <span className="status" data-kind={kind}>
      <i aria-hidden="true"><b>{statusSigns[kind]}</b></i>
      <span>{label ?? statusLabels[kind]}</span>
    </span>
  )
}

/** Meter shows how many tasks have each status. */
export function Meter({ counts }: { counts: Counts }) {
  const total = Object.values(counts).reduce((sum, n) => sum + n, 0)
  if (total === 0) return null
  const parts = statusOrder.filter((s) => counts[s])
  const text = parts.map((s) => `${counts[s]} ${statusLabels[s]}`).join(', ')
  return (
    <span className="meter" role="img" aria-label={text} title={text}>
      {parts.map((s) => <i key={s} data-kind={s} ref={(e) => { e?.style.setProperty('width', `${(100 * counts[s]!) / total}%`) }} />)}
    </span>
  )
}
