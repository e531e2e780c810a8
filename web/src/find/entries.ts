import type { LinkProps } from '@tanstack/react-router'

/** An Entry is something that a search can find. */
export interface Entry {
  kind: 'run' | 'runs' | 'group' | 'pool' | 'fleet' | 'executor' | 'change group' | 'schedule' | 'webhook'
  /** What the text of a search is compared with. */
  name: string
  detail?: string
  link: Pick<LinkProps, 'to' | 'params' | 'search'>
}

/** The most entries that a search shows. */
export const maxShown = 20

/** How well a name fits a text, the best first. */
const fits: readonly ((name: string, text: string) => boolean)[] = [
  (name, text) => name === text,
  (name, text) => name.startsWith(text),
  (name, text) => name.split(/[^\p{L}\p{N}]+/u).some((word) => word.startsWith(text)),
  (name, text) => name.includes(text),
]

/** matching returns the entries whose names contain a text in any case, the best first, each place once. */
export function matching(text: string, entries: readonly Entry[]): Entry[] {
  const wanted = (pathOf(text) ?? text.trim()).toLowerCase()
  if (wanted === '') return []
  const seen = new Set<string>()
  const ranked = entries.flatMap((entry) => {
    const rank = fits.findIndex((fit) => fit(entry.name.toLowerCase(), wanted))
    const place = JSON.stringify(entry.link)
    if (rank < 0 || seen.has(place)) return []
    seen.add(place)
    return { entry, rank }
  })
  return ranked.sort((a, b) => a.rank - b.rank).slice(0, maxShown).map((r) => r.entry)
}

/** idOf returns a text that has the form of the id of a run: 26 letters and digits. */
export function idOf(text: string): string | undefined {
  const id = text.trim().toLowerCase()
  return /^[0-9a-z]{26}$/.test(id) ? id : undefined
}

/**
 * nameBefore returns a text that stands, in the order of bytes of UTF-8, before all that begin with a text, and after all
 * names that stand before these.
 */
export function nameBefore(text: string): string | undefined {
  const characters = Array.from(text)
  const last = characters.pop()?.codePointAt(0)
  if (!last) return undefined
  const before = last === 0xe000 ? 0xd7ff : last - 1 // between them are no characters
  return `${characters.join('')}${String.fromCodePoint(before)}\u{10ffff}`
}

/** pathOf returns a text that is the path of a group of runs, without a slash at its end. */
export function pathOf(text: string): string | undefined {
  const path = text.trim().replace(/\/+$/, '')
  return path.startsWith('/') ? path : undefined
}
