import { useId, type ReactElement, type ReactNode } from 'react'

interface FieldProps {
  label: string
  hint?: ReactNode
  /** What is wrong with the value. */
  fault?: string
  children: (common: { id: string; 'aria-describedby'?: string; 'aria-invalid'?: true }) => ReactElement
}

/** Field is a control with its label, and below it what is wrong with its value, and a hint. */
export function Field({ label, hint, fault, children }: FieldProps) {
  const id = useId()
  const describedBy = [fault && `${id}-fault`, hint && `${id}-hint`].filter(Boolean).join(' ') || undefined
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children({ id, 'aria-describedby': describedBy, 'aria-invalid': fault === undefined ? undefined : true })}
      {fault && <small id={`${id}-fault`} className="fault">{fault}</small>}
      {hint && <small id={`${id}-hint`}>{hint}</small>}
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
  fault?: string
  /** It is not shown while it is typed. */
  secret?: boolean
}

export function TextField({ label, hint, fault, value, onChange, maxLength, lines, required, placeholder, secret }: TextFieldProps) {
  return (
    <Field label={label} hint={hint} fault={fault}>
      {(common) => lines
        ? <textarea {...common} value={value} maxLength={maxLength} placeholder={placeholder} spellCheck={false} onChange={(e) => onChange(e.target.value)} />
        : <input {...common} {...(secret && { type: 'password', autoComplete: 'off' })} required={required} value={value} maxLength={maxLength} placeholder={placeholder} onChange={(e) => onChange(e.target.value)} />}
    </Field>
  )
}

/** NumberField is a field for a whole number; '' is no number. */
export function NumberField({ label, hint, value, onChange, min = 0, max }: { label: string; hint?: ReactNode; value: string; onChange: (value: string) => void; min?: number; max?: number }) {
  return (
    <Field label={label} hint={hint}>
      {(common) => <input {...common} type="number" inputMode="numeric" required min={min} max={max} step={1} value={value} onChange={(e) => onChange(e.target.value)} />}
    </Field>
  )
}

export function Choice<T extends string>({ label, hint, value, options, onChange }: { label: string; hint?: ReactNode; value: T; options: readonly (readonly [T, string])[]; onChange: (value: T) => void }) {
  return (
    <Field label={label} hint={hint}>
      {(common) => (
        <select {...common} value={value} onChange={(e) => onChange(e.target.value as T)}>
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
