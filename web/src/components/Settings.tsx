import { useQueryClient } from '@tanstack/react-query'
import { useId } from 'react'

import { useAction } from '../api/action'
import type { components } from '../api/schema.gen'
import { rightsOf } from '../lib/permissions'
import { setTheme, useTheme } from '../lib/theme'
import { setZone, timestamp, useZone } from '../lib/time'
import { clearDraft } from '../submit/draft'
import { Outcome } from './Outcome'

const id = 'settings'

/** Settings is a button with a popover: who the user is, how times and colours are shown, and the logout. */
export function Settings({ session }: { session: components['schemas']['Session'] }) {
  const queries = useQueryClient()
  const zone = useZone()
  const theme = useTheme()
  const logout = useAction({
    act: async (api, everywhere: boolean) => (await api.DELETE('/api/v1/session', { params: { query: { everywhere } }, body: {} })).data,
    changes: [],
    onDone: (ended) => {
      clearDraft()
      // The provider's page ends the login there, and sends the browser back.
      if (ended?.logout_url) window.location.assign(ended.logout_url)
      else void queries.resetQueries()
    },
  })
  return (
    <>
      <button popoverTarget={id} aria-label="Settings" title="Settings">
        <svg width="18" height="18" viewBox="0 0 20 20" fill="none" stroke="currentColor" strokeWidth="1.6" strokeLinecap="round" aria-hidden="true">
          <path d="M3 6h7M14 6h3M3 14h3M10 14h7" /><circle cx="12" cy="6" r="2" /><circle cx="8" cy="14" r="2" />
        </svg>
      </button>
      <section id={id} popover="auto" className="settings" aria-label="Settings">
        <h2>{session.subject}</h2>
        <p className="muted">With {rightsOf(session)}.</p>
        <Choices legend="Times" value={zone} options={[['local', 'Local time'], ['utc', 'UTC']]} onChange={setZone} />
        <Choices legend="Theme" value={theme} options={[['system', 'System'], ['light', 'Light'], ['dark', 'Dark']]} onChange={setTheme} />
        {session.expires_at && (
          <>
            <p className="muted">The session ends at {timestamp(session.expires_at, zone)}, or earlier when it is not used.</p>
            <div className="out">
              <button onClick={() => logout.run(false)} disabled={logout.waiting}>Log out</button>
              <button onClick={() => logout.run(true)} disabled={logout.waiting}>Log out everywhere</button>
            </div>
          </>
        )}
        <Outcome action={logout} repeatable />
      </section>
    </>
  )
}

function Choices<T extends string>({ legend, value, options, onChange }: { legend: string; value: T; options: readonly (readonly [T, string])[]; onChange: (value: T) => void }) {
  const name = useId()
  return (
    <fieldset>
      <legend>{legend}</legend>
      <div className="choices">
        {options.map(([option, text]) => (
          <label key={option}><input type="radio" name={name} checked={value === option} onChange={() => onChange(option)} />{text}</label>
        ))}
      </div>
    </fieldset>
  )
}
