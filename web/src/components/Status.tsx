import type { Status as TaskStatus } from '../api/client'
import { statusLabels, statusSigns, type Counts, statusOrder } from '../lib/status'

export function StatusBadge({ kind, label }: { kind: TaskStatus | 'warnings'; label?: string }) {
  const sign = kind === 'warnings' ? '!' : statusSigns[kind]
  return (
    <span className="status" data-kind={kind}>
      <i aria-hidden="true"><b>{sign}</b></i>
      <span>{label ?? (kind === 'warnings' ? 'warnings' : statusLabels[kind])}</span>
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
