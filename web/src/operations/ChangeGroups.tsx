import { getRouteApi, Link } from '@tanstack/react-router'

import { Loaded } from '../components/Loaded'
import { PagedTable } from '../components/PagedTable'
import { changeGroupPolicies, heldOf, waitingOf } from './changegroup'
import { slotChanges, useLiveQuery } from './live'
import { changeGroupsQuery } from './queries'
import { Slots } from './Slots'

const route = getRouteApi('/operations/changegroups')

/** ChangeGroups lists the change groups by name, a page at a time. */
export function ChangeGroups() {
  const { after } = route.useSearch()
  const query = useLiveQuery(changeGroupsQuery(after), slotChanges)
  return (
    <>
      <h1 className="visually-hidden">Change groups</h1>
      <Loaded query={query}>
        {(page) => (
          <PagedTable
            to="/operations/changegroups" after={after} next={page.next_after}
            label="Change groups" rows={page.changegroups} idOf={(g) => g.name}
            empty={<><h2>There are no change groups.</h2><p>Of the runs and tasks that name a change group in <code>changegroups</code>, as many run at a time as its limit allows.</p></>}
            columns={[
              { title: 'Change group', cell: (g) => <Link to="/operations/changegroups/$name" params={{ name: g.name }}><strong>{g.name}</strong></Link> },
              { title: 'Slots held', cell: (g) => (g.max_running === 0 ? `${heldOf(g)}, no limit` : <Slots used={heldOf(g)} of={g.max_running} />) },
              { title: 'Waiting', number: true, cell: waitingOf },
              { title: 'If no slot is free', cell: (g) => changeGroupPolicies[g.on_busy] },
            ]}
          />
        )}
      </Loaded>
    </>
  )
}
