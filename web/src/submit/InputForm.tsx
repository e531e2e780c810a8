import { useId } from 'react'

import { inOrder, type FileInputs, type Input } from './file'

interface Props {
  inputs: Readonly<Record<string, Input>>
  /** What the file says of them. */
  file: FileInputs
  values: Readonly<Record<string, string>>
  /** What is wrong with values, by the names of their inputs. */
  faults: ReadonlyMap<string, string>
  onChange: (values: Readonly<Record<string, string>>) => void
}

/** InputForm has a field for each input of a run file, in its order. A field that is empty leaves the value to the file. */
export function InputForm({ inputs, file, values, faults, onChange }: Props) {
  const set = (name: string, value: string) => {
    const next = { ...values }
    if (value === '') delete next[name]
    else next[name] = value
    onChange(next)
  }
  return (
    <fieldset className="inputs">
      <legend>Inputs</legend>
      {inOrder(inputs, file).map(([name, input]) => <Field key={name} name={name} input={input} given={file.values[name] ?? input.default} value={values[name] ?? ''} fault={faults.get(name)} onChange={(v) => set(name, v)} />)}
    </fieldset>
  )
}

function Field({ name, input, given, value, fault, onChange }: { name: string; input: Input; given: unknown; value: string; fault?: string; onChange: (value: string) => void }) {
  const id = useId()
  const choices = input.type === 'boolean' ? ['true', 'false'] : input.type === 'choice' ? (input.options ?? []) : undefined
  const empty = given !== undefined ? `as in the file: ${String(given)}` : input.required ? 'required' : 'no value'
  const describedBy = [fault && `${id}-fault`, input.description && `${id}-about`].filter(Boolean).join(' ') || undefined
  const common = { id, value, 'aria-describedby': describedBy, 'aria-invalid': fault !== undefined, required: input.required && given === undefined }
  return (
    <div>
      <label htmlFor={id}><span className="mono">{name}</span>{input.required && <span className="muted"> required</span>}</label>
      {choices ? (
        <select {...common} onChange={(e) => onChange(e.target.value)}>
          <option value="">{empty}</option>
          {choices.map((c) => <option key={c}>{c}</option>)}
        </select>
      ) : (
        <input {...common} inputMode={input.type === 'number' ? 'decimal' : undefined} placeholder={empty} onChange={(e) => onChange(e.target.value)} />
      )}
      {fault && <p id={`${id}-fault`} className="fault">{fault}</p>}
      {input.description && <p id={`${id}-about`} className="muted">{input.description}</p>}
    </div>
  )
}
