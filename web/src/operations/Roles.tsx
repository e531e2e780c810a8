import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'

import { Act } from '../components/Act'
import { TextField } from '../components/Field'
import { Empty } from '../components/Command'
import { Loaded } from '../components/Loaded'
import { Table } from '../components/Table'
import { Time } from '../components/Time'
import { roleGrantsQuery, type Schemas } from './queries'
import { bodyOf, granteeOf, textOf } from './roleGrants'
import { Section } from './Section'

type List = Schemas['RoleGrants']

/** Roles shows the grants of roles to users of the identity provider, and changes the stored ones. */
export function Roles() {
  const query = useQuery(roleGrantsQuery)
  return (
    <>
      <h1 className="visually-hidden">Roles</h1>
      <p className="intro">Users of the identity provider have the roles of all grants that match. A change takes effect at all gateways within a few seconds, and open streams of users who lose the right to them end.</p>
      <Loaded query={query}>
        {(all) => (all ? <Shown all={all} /> : <div className="empty"><h2>This gateway has no identity provider.</h2><p>Its users have tokens, which carry their roles themselves.</p></div>)}
      </Loaded>
    </>
  )
}

function Shown({ all }: { all: Schemas['RoleGrantsList'] }) {
  return (
    <>
      <Section title="Stored grants" end={<Edit />}>
        <Table
          label="Stored grants" rows={all.rolegrants} idOf={(x) => x.name} empty={<Empty title="There are no stored grants." needs="putRoleGrants" text="drover roles apply -f roles.yaml">A list of grants gives roles to users and to groups of the identity provider</Empty>}
          columns={[
            { title: 'List', cell: (x) => <><strong>{x.name}</strong>{x.note && <span className="reason">{x.note}</span>}{x.issuer !== all.issuer && <span className="reason">No effect here: for users of {x.issuer}.</span>}</> },
            { title: 'Grants', cell: (x) => <><Grants grants={x.grants} />{!!x.unknown && <span className="reason">{x.unknown} of a newer version, without effect here</span>}</> },
            { title: 'Changed', cell: (x) => <><Time at={x.updated_at} /><span className="reason">by {x.updated_by}</span></> },
            { title: 'Actions', cell: (x) => <span className="actions">{!x.unknown && <Edit list={x} />}<Delete list={x} /></span> },
          ]}
        />
      </Section>
      {all.file && (
        <Section title="Grants in the file of this gateway">
          <Table
            label="Grants in the file" rows={all.file.map((grant, i) => ({ grant, id: String(i) }))} idOf={(x) => x.id} empty={<h2>The file has no grants.</h2>}
            columns={[
              { title: 'For', cell: ({ grant }) => <strong>{granteeOf(grant)}</strong> },
              { title: 'Role', cell: ({ grant }) => grant.role },
              { title: 'Groups', cell: ({ grant }) => <span className="mono">{grant.groups.join(', ')}</span> },
            ]}
          />
        </Section>
      )}
    </>
  )
}

function Grants({ grants }: { grants: Schemas['RoleGrant'][] }) {
  if (grants.length === 0) return <span className="muted">none</span>
  return grants.map((g, i) => <span key={i} className="reason"><strong>{granteeOf(g)}</strong> {g.role} <span className="mono">{g.groups.join(', ')}</span></span>)
}

const draftOf = (list?: List) => ({ text: textOf(list?.grants ?? []), note: list?.note ?? '', version: list?.version ?? 0 })

/** Edit changes a list, or makes a new one. The version of the list, as the user saw it, protects the change of another user. */
function Edit({ list }: { list?: List }) {
  const queries = useQueryClient()
  const [name, setName] = useState('')
  const [draft, setDraft] = useState(() => draftOf(list))
  const set = (change: Partial<typeof draft>) => setDraft((old) => ({ ...old, ...change }))
  const present = () => list && queries.getQueryData(roleGrantsQuery.queryKey)?.rolegrants.find((x) => x.name === list.name)
  return (
    <Act
      label={list ? 'Edit' : 'Add a list'} needs="putRoleGrants" submit="Save" title={list ? `Edit the role grants ${list.name}` : 'Add role grants'} changes={['rolegrants']}
      onOpen={() => setDraft(draftOf(list))} onReload={list && (() => setDraft(draftOf(present())))}
      act={(api) => api.PUT('/api/v1/rolegrants/{name}', {
        params: { path: { name: list?.name ?? name } }, headers: { 'Content-Type': 'application/yaml' }, body: bodyOf(draft) as never, bodySerializer: (b: unknown) => b as string,
      })}
    >
      {!list && <TextField label="Name" hint="Lower case letters, digits, dots, underscores and dashes." required maxLength={100} value={name} onChange={setName} />}
      <TextField
        label="Grants" lines value={draft.text} onChange={(text) => set({ text })} placeholder="- {members: web, role: submitter, groups: [/acme/web/**]}"
        hint={<>One a line, for a group of users (<code>members</code>) or a user (<code>subject</code>, <code>&quot;*&quot;</code> for all). The roles are viewer, submitter, approver, operator and admin.</>}
      />
      <TextField label="Note" maxLength={1000} value={draft.note} onChange={(note) => set({ note })} />
    </Act>
  )
}

/** Delete deletes the list that the user saw when the dialog opened, and no later one. */
function Delete({ list }: { list: List }) {
  const [version, setVersion] = useState(list.version)
  return (
    <Act
      label="Delete" needs="deleteRoleGrants" title={`Delete the role grants ${list.name}`} danger changes={['rolegrants']}
      onOpen={() => setVersion(list.version)}
      confirm={<p>The users lose the roles of this list at all gateways within a few seconds, unless other grants give them too.</p>}
      act={(api) => api.DELETE('/api/v1/rolegrants/{name}', { params: { path: { name: list.name }, query: { version } } })}
    />
  )
}
