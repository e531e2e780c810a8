import { keepPreviousData, useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useEffect, useMemo, useState } from 'react'

import { api } from '../api/client'
import { readOn } from '../api/list'
import { listen } from '../api/listen'
import { Failed } from '../components/Loaded'
import { StatusBadge } from '../components/Status'
import { outcome } from '../lib/status'
import { throttle } from '../lib/throttle'
import { ago, timestamp, useNow, useZone } from '../lib/time'
import { pathsOf, treeOf, type Group, type GroupNode } from '../runs/groups'
import '../runs/runs.css'

const route = getRouteApi('/runs/groups')
const pageSize = 100
const refreshMillis = 3000

/** Groups is the tree of the groups with runs: how many are open, and how the last one ended. */
export function Groups() {
  const { under } = route.useSearch()
  const queries = useQueryClient()
  const query = useInfiniteQuery({
    queryKey: ['groups', under],
    initialPageParam: '',
    queryFn: ({ pageParam, signal }) => readOn('groups', pageParam || undefined, async (after) => (await api.GET('/api/v1/groups', { signal, params: { query: { under, after, limit: pageSize } } })).data!),
    getNextPageParam: (last) => last.next_after,
  })
  useEffect(() => {
    const refresh = throttle(() => void queries.invalidateQueries({ queryKey: ['groups'] }, { cancelRefetch: false }), refreshMillis)
    return listen((events) => {
      if (events.some((e) => e.type === 'run')) refresh()
    })
  }, [queries])
  const listed = useMemo(() => query.data?.pages.flatMap((p) => p.groups) ?? [], [query.data])
  const tree = useMemo(() => treeOf(listed.map((g) => g.path)), [listed])
  // The API lists paths that have runs of their own. The counts of those above are asked for by path.
  const above = useMemo(() => {
    const has = new Set(listed.map((g) => g.path))
    return pathsOf(tree).filter((p) => !has.has(p)).slice(0, pageSize)
  }, [listed, tree])
  const rest = useQuery({
    queryKey: ['groups', 'paths', above],
    enabled: above.length > 0,
    placeholderData: keepPreviousData,
    queryFn: async ({ signal }) => (await api.GET('/api/v1/groups', { signal, params: { query: { path: above } } })).data!,
  })
  const byPath = useMemo(() => new Map([...(rest.data?.groups ?? []), ...listed].map((g) => [g.path, g])), [listed, rest.data])
  return (
    <>
      <div className="head">
        <h1>Runs</h1>
        <nav className="views" aria-label="Views of the runs">
          <Link to="/runs" search={{ group: under }} activeOptions={{ exact: true, includeSearch: false }}>List</Link>
          <Link to="/runs/groups" search={{ under }}>Groups</Link>
        </nav>
      </div>
      <p className="muted">
        {under ? <>Groups below <strong className="mono">{under}</strong>. <Link to="/runs/groups">All groups</Link></> : 'A run counts for its group and for all groups above it.'}
      </p>
      <Failed query={query} />
      {query.isPending && !query.failureReason && <p className="muted">Loading the groups …</p>}
      {query.data && listed.length === 0 && <div className="empty"><p>No group has runs{under ? ' here' : ' yet'}.</p><Link to="/runs" className="button">To the runs</Link></div>}
      {listed.length > 0 && (
        <>
          <div className="group-tree">
            <div className="group-row titles" aria-hidden="true"><span>Group</span><span>Queued</span><span>Running</span><span className="last">Last run</span></div>
            <ul aria-label="Groups">{tree.map((n) => <Node key={n.path} node={n} depth={0} groups={byPath} />)}</ul>
          </div>
          {query.hasNextPage && <div className="pager"><button disabled={query.isFetching} onClick={() => void query.fetchNextPage()}>More groups</button></div>}
        </>
      )}
    </>
  )
}

function Node({ node, depth, groups }: { node: GroupNode; depth: number; groups: ReadonlyMap<string, Group> }) {
  const [open, setOpen] = useState(depth < 2)
  const group = groups.get(node.path)
  const last = group?.last_run
  const zone = useZone()
  return (
    <li>
      <div className="group-row">
        <span className="path" style={{ paddingLeft: depth * 20 }}>
          {node.children.length > 0
            ? <button className="twist" aria-expanded={open} aria-label={`${open ? 'Close' : 'Open'} ${node.path}`} onClick={() => setOpen(!open)}>{open ? '▾' : '▸'}</button>
            : <span className="twist" aria-hidden="true">·</span>}
          <Link to="/runs" search={{ group: node.path }} title={node.path}>{node.name}</Link>
        </span>
        <span><span className="visually-hidden">queued: </span>{group ? group.queued : ''}</span>
        <span><span className="visually-hidden">running: </span>{group ? group.running : ''}</span>
        <span className="last">
          {last && (
            <>
              <StatusBadge {...outcome(last)} />
              <Link to="/runs/$id" params={{ id: last.id }}>{last.name} #{last.counter}</Link>
              <span className="muted" title={timestamp(last.created_at, zone)}><Ago time={last.created_at} /></span>
            </>
          )}
        </span>
      </div>
      {open && node.children.length > 0 && <ul>{node.children.map((n) => <Node key={n.path} node={n} depth={depth + 1} groups={groups} />)}</ul>}
    </li>
  )
}

function Ago({ time }: { time: string }) {
  return <>{ago(time, useNow())}</>
}
