import { useId } from 'react'

import type { Input } from './file'

interface Props {
  inputs: Readonly<Record<string, Input>>
  values: Readonly<Record<string, string>>
  onChange: (values: Readonly<Record<string, string>>) => void
}

/** InputForm has a field for each input of a run file. A field that is empty leaves the value to the file. */
export function InputForm({ inputs, values, onChange }: Props) {
  const set = (name: string, value: string) => {
    const next = { ...values }
    if (value === '') delete next[name]
    else next[name] = value
    onChange(next)
  }
  return (
    <fieldset className="inputs">
      <legend>Inputs</legend>
      {Object.entries(inputs).map(([name, input]) => <Field key={name} name={name} input={input} value={values[name] ?? ''} onChange={(v) => set(name, v)} />)}
    </fieldset>
  )
}

function Field({ name, input, value, onChange }: { name: string; input: Input; value: string; onChange: (value: string) => void }) {
  const id = useId()
  const choices = input.type === 'boolean' ? ['true', 'false'] : input.type === 'choice' ? (input.options ?? []) : undefined
  const preset = input.default !== undefined ? `default: ${String(input.default)}` : input.required ? 'required' : ''
  const common = { id, value, 'aria-describedby': input.description ? `${id}-about` : undefined, required: input.required && input.default === undefined }
  return (
    <div>
      <label htmlFor={id}><span className="mono">{name}</span>{input.required && <span className="muted"> required</span>}</label>
      {choices ? (
        <select {...common} onChange={(e) => onChange(e.target.value)}>
          <option value="">{preset || 'as in the file'}</option>
          {choices.map((c) => <option key={c}>{c}</option>)}
        </select>
      ) : (
        <input {...common} inputMode={input.type === 'number' ? 'decimal' : undefined} placeholder={preset || 'as in the file'} onChange={(e) => onChange(e.target.value)} />
      )}
      {input.description && <p id={`${id}-about`} className="muted">{input.description}</p>}
    </div>
  )
}
