import type { components } from '../../api/schema.gen'

export type Entry = components['schemas']['ArtifactEntry']

/** A Row is a file, link or directory of the directory that is shown. */
export interface Row {
  name: string
  path: string
  directory: boolean
  size: number
  files: number
  entry?: Entry
}

const clean = (path: string) => path.split('/').filter((p) => p !== '' && p !== '.').join('/')

/** rowsIn returns what is directly in a directory of an artifact: directories first, each with what is below it. */
export function rowsIn(entries: readonly Entry[], directory: string): Row[] {
  const rows = new Map<string, Row>()
  const prefix = directory === '' ? '' : `${directory}/`
  for (const entry of entries) {
    const path = clean(entry.path)
    if (!path.startsWith(prefix) || path.length === prefix.length) continue
    const rest = path.slice(prefix.length)
    const slash = rest.indexOf('/')
    const name = slash < 0 ? rest : rest.slice(0, slash)
    // A directory may have no entry of its own.
    const inDirectory = slash >= 0 || entry.type === 'directory'
    const row = rows.get(name) ?? { name, path: prefix + name, directory: inDirectory, size: 0, files: 0 }
    row.directory ||= inDirectory
    if (slash < 0) row.entry = entry
    if (entry.type !== 'directory') {
      row.size += entry.size
      row.files++
    }
    rows.set(name, row)
  }
  const collator = new Intl.Collator(undefined, { numeric: true })
  return [...rows.values()].sort((a, b) => Number(b.directory) - Number(a.directory) || collator.compare(a.name, b.name))
}

export type Preview = 'text' | 'image' | 'none'

/** Browsers show these as pixels only; SVG is not one of them, as it may have scripts. */
const images: Readonly<Record<string, string>> = { png: 'image/png', jpg: 'image/jpeg', jpeg: 'image/jpeg', gif: 'image/gif', webp: 'image/webp', avif: 'image/avif', bmp: 'image/bmp', ico: 'image/x-icon' }
const binaries = new Set(['zip', 'gz', 'tgz', 'zst', 'xz', 'bz2', 'tar', '7z', 'jar', 'war', 'exe', 'dll', 'so', 'a', 'o', 'dylib', 'bin', 'wasm', 'pdf', 'mp4', 'webm', 'mp3', 'woff', 'woff2', 'ttf', 'sqlite', 'db', 'class', 'pyc', 'deb', 'rpm', 'dmg', 'iso'])

const extension = (path: string) => /\.([^./]+)$/.exec(path.toLowerCase())?.[1] ?? ''

/** imageType returns the media type of an image that is safe to show, by its name. */
export const imageType = (path: string): string | undefined => (Object.hasOwn(images, extension(path)) ? images[extension(path)] : undefined)

export const maxImage = 10 << 20
export const maxText = 1 << 20

/** previewOf says how a file is shown. */
export function previewOf(path: string, size: number): Preview {
  if (imageType(path)) return size <= maxImage ? 'image' : 'none'
  return binaries.has(extension(path)) ? 'none' : 'text'
}

/** textOf decodes a file, or returns nothing if it is not text. */
export function textOf(content: Uint8Array): string | undefined {
  if (content.subarray(0, 8192).includes(0)) return undefined
  return new TextDecoder().decode(content)
}
