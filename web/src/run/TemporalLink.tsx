import { useQuery } from '@tanstack/react-query'

import { api } from '../api/client'

/** TemporalLink leads to the workflow of the run in Temporal's own UI, if the gateway knows where that is. */
export function TemporalLink({ run }: { run: string }) {
  const links = useQuery({ queryKey: ['links'], queryFn: async ({ signal }) => (await api.GET('/api/v1/links', { signal })).data! })
  const url = links.data?.temporal_run?.replace('{run}', encodeURIComponent(run))
  // The address is from the configuration of the gateway; only web addresses become links.
  if (!url || !/^https?:\/\//.test(url)) return null
  return <a href={url} target="_blank" rel="noreferrer">Workflow in Temporal</a>
}
