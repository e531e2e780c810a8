import type { ErrorComponentProps } from '@tanstack/react-router'

import { messageOf } from '../api/problem'

/** Broken says that a page could not be drawn. The rest of the UI can be used. */
export function Broken({ error, reset }: ErrorComponentProps) {
  return (
    <div className="notice failed" role="alert">
      <strong>The page could not be shown.</strong>
      <p className="mono">{messageOf(error)}</p>
      <p><button type="button" onClick={reset}>Try again</button> <button type="button" onClick={() => window.location.reload()}>Load the page again</button></p>
    </div>
  )
}
