import type { ReactNode } from 'react'

export type Kind = 'success' | 'failed' | 'waiting_approval' | 'quiet' | 'running' | 'stopped'

const signs: Record<Kind, string> = { success: '✓', failed: '✕', waiting_approval: '!', quiet: '–', running: '▶', stopped: '■' }

/** State shows the state of something that is not a task. */
export function State({ kind, children }: { kind: Kind; children: ReactNode }) {
  return <span className="status" data-kind={kind}><i aria-hidden="true"><b>{signs[kind]}</b></i><span>{children}</span></span>
}
