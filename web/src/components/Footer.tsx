import { useQuery } from '@tanstack/react-query'

import { api } from '../api/client'
import { useZone } from '../lib/time'

/** Footer says which version of the server answers, and which times the page shows. */
export function Footer() {
  const zone = useZone()
  const version = useQuery({ queryKey: ['version'], queryFn: async ({ signal }) => (await api.GET('/api/v1/version', { signal })).data! })
  return (
    <footer className="foot">
      <span>{version.data ? `Drover ${version.data.version}` : 'Drover'}</span>
      <span>Times in {zone === 'utc' ? 'UTC' : `local time (${Intl.DateTimeFormat().resolvedOptions().timeZone})`}</span>
    </footer>
  )
}
