/**
 * returnTo gives the path of the page to show after a login: the one that was asked for,
 * if it is a page of this origin and below the base path, else the first page. The gateway checks it too.
 */
export function returnTo(path: string | undefined, origin: string, base: string): string {
  const first = `${base}/`
  if (!path?.startsWith('/') || path.length > 2000) return first
  try {
    const url = new URL(path, origin)
    // A browser reads //host and /\\host as another host, and the callback would complete a login twice.
    if (url.origin !== origin || url.pathname.startsWith('//') || !url.pathname.startsWith(first) || url.pathname === `${base}/login/callback`) return first
    return url.pathname + url.search + url.hash
  } catch {
    return first
  }
}
