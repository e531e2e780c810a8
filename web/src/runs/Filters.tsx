import { Link } from '@tanstack/react-router'
import { useState, type Ref } from 'react'

import { isFiltered, phases, results, type RunFilters } from './filters'

interface Props {
  filters: RunFilters
  onChange: (change: RunFilters) => void
  search: Ref<HTMLInputElement>
}

/** Filters are those that the API has. */
export function Filters({ filters, onChange, search }: Props) {
  const [more, setMore] = useState(filters.changegroup !== undefined || filters.annotation !== undefined || filters.input !== undefined || filters.name !== undefined || filters.created_by !== undefined || filters.created_after !== undefined || filters.created_before !== undefined)
  return (
    <form className="filters runs-filters" onSubmit={(e) => e.preventDefault()} role="search" aria-label="Filters of the runs">
      <Words inputRef={search} label="Group" placeholder="group, such as /acme" value={filters.group} onChange={(group) => onChange({ group })} />
      <Chips label="Phase" options={phases} value={filters.phase} onChange={(phase) => onChange({ phase })} />
      <Chips label="Result" options={results} value={filters.result} onChange={(result) => onChange({ result, warnings: undefined })} />
      <button type="button" aria-pressed={filters.warnings ?? false} title="Succeeded, although tasks failed that may fail" onClick={() => onChange({ warnings: filters.warnings ? undefined : true, result: undefined })}>With warnings</button>
      <button type="button" aria-pressed={filters.mine ?? false} onClick={() => onChange({ mine: filters.mine ? undefined : true, created_by: undefined })}>Mine</button>
      {more && (
        <>
          <Words label="Name" placeholder="name of the run" value={filters.name} onChange={(name) => onChange({ name })} />
          <Words label="Creator" placeholder="creator, such as schedule:nightly" value={filters.created_by} onChange={(created_by) => onChange({ created_by, mine: undefined })} />
          <Words label="Change group" placeholder="change group" value={filters.changegroup} onChange={(changegroup) => onChange({ changegroup })} />
          <Words label="Annotation" placeholder="annotation key=value" value={filters.annotation} onChange={(annotation) => onChange({ annotation })} />
          <Words label="Input" placeholder="input name=value" value={filters.input} onChange={(input) => onChange({ input })} />
          <Day label="from" value={filters.created_after} onChange={(created_after) => onChange({ created_after })} />
          <Day label="before" value={filters.created_before} onChange={(created_before) => onChange({ created_before })} />
        </>
      )}
      <button type="button" aria-expanded={more} onClick={() => setMore(!more)}>{more ? 'Fewer filters' : 'More filters'}</button>
      <button type="button" onClick={() => onChange({ order: filters.order ? undefined : 'asc' })}>{filters.order ? 'Oldest first' : 'Newest first'}</button>
      {isFiltered(filters) && <Link to="/runs" className="button">Clear</Link>}
    </form>
  )
}

function Chips({ label, options, value, onChange }: { label: string; options: readonly string[]; value?: string[]; onChange: (value?: string[]) => void }) {
  return (
    <div role="group" aria-label={label} className="chips">
      {options.map((o) => {
        const on = value?.includes(o) ?? false
        return (
          <button key={o} type="button" aria-pressed={on} onClick={() => {
            const next = on ? value!.filter((v) => v !== o) : [...(value ?? []), o]
            onChange(next.length > 0 ? next : undefined)
          }}>{o.replace('_', ' ')}</button>
        )
      })}
    </div>
  )
}

function Words({ label, placeholder, value, onChange, inputRef }: { label: string; placeholder: string; value?: string; onChange: (v?: string) => void; inputRef?: Ref<HTMLInputElement> }) {
  const apply = (text: string) => (text.trim() || undefined) !== value && onChange(text.trim() || undefined)
  return (
    <input
      key={value ?? ''} ref={inputRef} type="search" aria-label={label} defaultValue={value} placeholder={placeholder}
      onBlur={(e) => apply(e.target.value)}
      onKeyDown={(e) => {
        if (e.key === 'Enter') apply(e.currentTarget.value)
        if (e.key === 'Escape') e.currentTarget.blur()
      }}
    />
  )
}

function Day({ label, value, onChange }: { label: string; value?: string; onChange: (v?: string) => void }) {
  return <label className="day">{label} <input type="date" value={value?.slice(0, 10) ?? ''} onChange={(e) => onChange(e.target.value || undefined)} /></label>
}
