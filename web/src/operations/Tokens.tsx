import { useQuery } from '@tanstack/react-query'

import { Act } from '../components/Act'
import { Loaded } from '../components/Loaded'
import { State } from '../components/State'
import { Table } from '../components/Table'
import { Stamp, Time } from '../components/Time'
import { useNow } from '../lib/time'
import { sessionQuery, tokensQuery, type Schemas } from './queries'

type Token = Schemas['BearerToken']

const day = 24 * 60 * 60_000

/** Tokens lists the bearer tokens: what they may do, until when, and when they were used last. */
export function Tokens() {
  const query = useQuery(tokensQuery)
  const session = useQuery(sessionQuery)
  return (
    <>
      <h1 className="visually-hidden">Tokens</h1>
      <p className="intro">The tokens themselves are shown nowhere. <code>drover tokens create</code> creates one at the gateway; with <code>--file</code> it adds one to a token file instead.</p>
      <Loaded query={query}>
        {(tokens) => (
          <Table
            label="Tokens" rows={tokens} idOf={(t) => t.name} empty={<h2>There are no tokens.</h2>}
            columns={[
              { title: 'Token', cell: (t) => <><strong>{t.name}</strong>{t.name === session.data?.subject && <span className="muted"> you</span>}<span className="reason">{bound(t)}</span></> },
              { title: 'Scopes or roles', cell: (t) => <span className="mono">{t.scopes.join(', ')}{t.bindings?.map((b) => <span key={b.role + b.groups.join()} className="reason">{b.role} {b.groups.join(', ')}</span>)}</span> },
              { title: 'State', cell: (t) => <Validity token={t} /> },
              { title: 'Expires', cell: (t) => <Stamp at={t.expires_at} none="never" /> },
              { title: 'Last used', cell: (t) => <Time at={t.last_used_at} none="never" /> },
              { title: 'Actions', cell: (t) => !t.revoked_at && <span className="actions"><Revoke token={t} own={t.name === session.data?.subject} /></span> },
            ]}
          />
        )}
      </Loaded>
    </>
  )
}

/** bound says to what a token is limited. */
function bound(t: Token): string {
  const parts: [string, string | undefined][] = [['executor', t.executor], ['pool', t.pool], ['set', t.set], ['fleet', t.fleet], ['instance', t.instance]]
  return parts.filter(([, value]) => value).map(([name, value]) => `${name} ${value}`).join(', ')
}

function Validity({ token: t }: { token: Token }) {
  const now = useNow()
  const left = t.expires_at ? Date.parse(t.expires_at) - now : Infinity
  if (t.revoked_at) return <><State kind="quiet">revoked <Time at={t.revoked_at} /></State>{t.revoked_by && <span className="reason">by {t.revoked_by}</span>}</>
  if (left <= 0) return <State kind="failed">expired</State>
  if (left < 7 * day) return <State kind="waiting_approval">expires soon</State>
  return <State kind="success">valid</State>
}

function Revoke({ token, own }: { token: Token; own: boolean }) {
  return (
    <Act
      label="Revoke" needs="revokeToken" title={`Revoke the token ${token.name}`} danger changes={['tokens']}
      confirm={
        <>
          <p>All gateways refuse the token within ten seconds. This is permanent.</p>
          {token.executor && <p>The executors with this token lose contact: their tasks fail or are retried when they count as lost.</p>}
          {own && <p><strong>It is your own token: this page logs you out.</strong></p>}
        </>
      }
      act={(api) => api.POST('/api/v1/tokens/{name}/revoke', { params: { path: { name: token.name } } })}
    />
  )
}
