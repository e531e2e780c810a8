import { useId, type ReactElement, type ReactNode } from 'react'

interface FieldProps {
  label: string
  hint?: ReactNode
  children: (id: string, hint: string | undefined) => ReactElement
}

/** Field is a control with its label, and a hint below. */
export function Field({ label, hint, children }: FieldProps) {
  const id = useId()
  const hintId = useId()
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children(id, hint ? hintId : undefined)}
      {hint && <small id={hintId}>{hint}</small>}
    </div>
  )
}

interface TextFieldProps {
  label: string
  hint?: ReactNode
  value: string
  onChange: (value: string) => void
  maxLength?: number
  lines?: boolean
  required?: boolean
  placeholder?: string
}

export function TextField({ label, hint, value, onChange, maxLength, lines, required, placeholder }: TextFieldProps) {
  return (
    <Field label={label} hint={hint}>
      {(id, describedBy) => lines
        ? <textarea id={id} aria-describedby={describedBy} value={value} maxLength={maxLength} placeholder={placeholder} spellCheck={false} onChange={(e) => onChange(e.target.value)} />
        : <input id={id} aria-describedby={describedBy} required={required} value={value} maxLength={maxLength} placeholder={placeholder} onChange={(e) => onChange(e.target.value)} />}
    </Field>
  )
}

/** NumberField is a field for a whole number; '' is no number. */
export function NumberField({ label, hint, value, onChange, min = 0, max }: { label: string; hint?: ReactNode; value: string; onChange: (value: string) => void; min?: number; max?: number }) {
  return (
    <Field label={label} hint={hint}>
      {(id, describedBy) => <input id={id} type="number" inputMode="numeric" required min={min} max={max} step={1} aria-describedby={describedBy} value={value} onChange={(e) => onChange(e.target.value)} />}
    </Field>
  )
}

export function Choice<T extends string>({ label, hint, value, options, onChange }: { label: string; hint?: ReactNode; value: T; options: readonly (readonly [T, string])[]; onChange: (value: T) => void }) {
  return (
    <Field label={label} hint={hint}>
      {(id, describedBy) => (
        <select id={id} aria-describedby={describedBy} value={value} onChange={(e) => onChange(e.target.value as T)}>
          {options.map(([option, text]) => <option key={option} value={option}>{text}</option>)}
        </select>
      )}
    </Field>
  )
}

export function Check({ label, hint, checked, onChange }: { label: string; hint?: ReactNode; checked: boolean; onChange: (checked: boolean) => void }) {
  return (
    <label className="check">
      <input type="checkbox" checked={checked} onChange={(e) => onChange(e.target.checked)} />
      <span>{label}{hint && <small>{hint}</small>}</span>
    </label>
  )
}
