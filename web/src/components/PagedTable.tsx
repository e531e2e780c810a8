import { Link } from '@tanstack/react-router'

import { Table, type TableProps } from './Table'

interface Props<T> extends TableProps<T> {
  to: '/approvals' | '/operations/changegroups' | '/operations/schedules'
  /** Where the page begins, and the next one. */
  after?: string
  next?: string
}

/** PagedTable shows a list a page at a time. The list is empty only if its first page is. */
export function PagedTable<T>({ to, after, next, empty, ...table }: Props<T>) {
  return (
    <>
      <Table {...table} empty={after ? <h2>There are no more {table.label.toLowerCase()}.</h2> : empty} />
      {(after || next) && (
        <nav className="pager" aria-label="Pages">
          {after && <Link to={to} search={{}} className="button">First page</Link>}
          {next && <Link to={to} search={{ after: next }} className="button">Next page</Link>}
        </nav>
      )}
    </>
  )
}
