import { useRef } from 'react'

/** A Pair is a key and a value that the user edits. */
export interface Pair {
  id: number
  key: string
  value: string
}

let last = 0
export const newPair = (key = '', value = ''): Pair => ({ id: ++last, key, value })
export const pairsOf = (record: Readonly<Record<string, string>>): Pair[] => Object.entries(record).sort(([a], [b]) => (a < b ? -1 : 1)).map(([k, v]) => newPair(k, v))
/** recordOf leaves out pairs without a key. */
export const recordOf = (pairs: readonly Pair[]): Record<string, string> => Object.fromEntries(pairs.filter((p) => p.key.trim() !== '').map((p) => [p.key.trim(), p.value]))

interface Props {
  pairs: readonly Pair[]
  onChange: (pairs: Pair[]) => void
  keyLabel: string
  valueLabel: string
  add: string
}

/** Pairs edits keys and values. */
export function Pairs({ pairs, onChange, keyLabel, valueLabel, add }: Props) {
  const added = useRef(0)
  const set = (id: number, change: Partial<Pair>) => onChange(pairs.map((p) => (p.id === id ? { ...p, ...change } : p)))
  return (
    <div>
      {pairs.map((p) => (
        <div key={p.id} className="pair">
          <input aria-label={keyLabel} placeholder={keyLabel.toLowerCase()} value={p.key} onChange={(e) => set(p.id, { key: e.target.value })} ref={(e) => { if (e && added.current === p.id) { added.current = 0; e.focus() } }} />
          <input aria-label={`${valueLabel} of ${p.key || 'the new key'}`} placeholder={valueLabel.toLowerCase()} value={p.value} onChange={(e) => set(p.id, { value: e.target.value })} />
          <button type="button" aria-label={`Remove ${p.key || 'the new key'}`} onClick={() => onChange(pairs.filter((other) => other.id !== p.id))}>Remove</button>
        </div>
      ))}
      <button type="button" onClick={() => { const pair = newPair(); added.current = pair.id; onChange([...pairs, pair]) }}>{add}</button>
    </div>
  )
}
