/** A page of a list. It may be empty although others follow: the gateway compares a limited number of entries in one call. */
type Page<K extends string> = Readonly<Record<K, readonly unknown[]>> & { next_after?: string; next_cursor?: string }

/** readOn reads a page of a list, and the following ones while they are empty. So there is nothing behind an empty page. */
export async function readOn<K extends string, P extends Page<K>>(entries: K, after: string | undefined, read: (after: string | undefined) => Promise<P>): Promise<P> {
  for (;;) {
    const page = await read(after)
    const next = page.next_after ?? page.next_cursor
    if (page[entries].length > 0 || !next) return page
    after = next
  }
}
