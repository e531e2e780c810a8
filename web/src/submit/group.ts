import { isMap, isScalar, parseDocument, stringify } from 'yaml'

/** groupOf returns the group of a run file, if it can be read. */
export function groupOf(text: string): string | undefined {
  const file = parseDocument(text)
  const group: unknown = file.errors.length === 0 && isMap(file.contents) ? file.get('group') : undefined
  return typeof group === 'string' && group !== '' ? group : undefined
}

/** withGroup returns a run file with another group; all else stays as it is written. A file that cannot be read stays too. */
export function withGroup(text: string, group: string): string {
  const file = parseDocument(text)
  if (file.errors.length > 0 || !isMap(file.contents)) return text
  const written = stringify(group, { lineWidth: 0 }).trimEnd()
  const old: unknown = file.get('group', true)
  if (isScalar(old) && old.range && old.range[0] < old.range[1]) return text.slice(0, old.range[0]) + written + text.slice(old.range[1])
  if (file.has('group') || file.contents.flow) return text
  const first = file.contents.items[0]?.key
  const at = isScalar(first) && first.range ? first.range[0] : 0
  return `${text.slice(0, at)}group: ${written}\n${text.slice(at)}`
}
