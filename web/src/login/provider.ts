import { apiUntil, type Api } from '../api/client'
import { base } from '../lib/base'
import { returnTo } from './returnTo'

/** beginLogin begins a login at the provider, and returns where it continues. */
export async function beginLogin(api: Api): Promise<string> {
  const { pathname, search, hash, origin } = window.location
  return (await api.POST('/api/v1/session/provider', { body: { return_to: returnTo(pathname + search + hash, origin, base) } })).data!.url
}

/** canBegin asks in the background whether the provider can be used. A login that it begins ends unused: the user decides when to leave the page. */
export async function canBegin(): Promise<boolean> {
  return (await beginLogin(apiUntil())) !== ''
}
