import Anser from 'anser'

/** Piece is text with one look. */
export interface Piece {
  text: string
  /** Classes of the colours that the themes have. */
  look: string
  /** Other colours, as numbers: "255, 0, 0". */
  color?: string
  background?: string
  /** The piece is what the reader searches for. */
  found?: boolean
}

// Links and titles (OSC), other strings, and sequences of two bytes; colours are left to anser.
const others = /\u001b(?:\][^\u0007\u001b]*(?:\u0007|\u001b\\|$)|[P_^][^\u001b]*(?:\u001b\\|$)|[^[\]P_^]|$)/g

/** pieces divides a line by its colours. It returns text only: nothing of it is markup. */
export function pieces(line: string): Piece[] {
  if (!line.includes('\u001b')) return [{ text: line, look: '' }]
  return Anser.ansiToJson(line.replace(others, ''), { json: true, remove_empty: true, use_classes: true }).map((part) => {
    const piece: Piece = { text: part.content, look: '' }
    const looks: string[] = part.decorations.map((d) => `ansi-${d}`)
    const color = rgb(part.fg, part.fg_truecolor)
    const background = rgb(part.bg, part.bg_truecolor)
    if (color) piece.color = color
    else if (part.fg) looks.push(part.fg)
    if (background) piece.background = background
    else if (part.bg) looks.push(`${part.bg}-bg`)
    piece.look = looks.join(' ')
    return piece
  })
}

/** rgb returns a colour of the palette of 256, or a true colour; undefined for one that the themes have. */
function rgb(name: string | null, truecolor: string | null): string | undefined {
  if (name === 'ansi-truecolor') return truecolor ?? undefined
  const found = /^ansi-palette-(\d+)$/.exec(name ?? '')
  return found ? palette(Number(found[1])) : undefined
}

/** palette returns a colour of xterm's 6x6x6 cube, or of its greys. */
function palette(n: number): string {
  if (n >= 232) {
    const grey = 8 + 10 * (n - 232)
    return `${grey}, ${grey}, ${grey}`
  }
  const level = (v: number) => (v === 0 ? 0 : 55 + 40 * v)
  const i = n - 16
  return `${level(Math.floor(i / 36))}, ${level(Math.floor(i / 6) % 6)}, ${level(i % 6)}`
}

/** mark divides pieces where they have the text that is searched for, over the borders of colours. */
export function mark(all: Piece[], text: string): Piece[] {
  if (text === '') return all
  const line = fold(all.map((p) => p.text).join(''))
  const needle = fold(text)
  let at = line.indexOf(needle)
  if (at < 0) return all
  const out: Piece[] = []
  let begin = 0
  for (const piece of all) {
    const end = begin + piece.text.length
    for (let from = begin; from < end;) {
      while (at >= 0 && at + needle.length <= from) at = line.indexOf(needle, at + needle.length)
      const found = at >= 0 && at <= from
      const to = Math.min(end, at < 0 ? end : found ? at + needle.length : at)
      out.push({ ...piece, text: piece.text.slice(from - begin, to - begin), ...(found ? { found } : {}) })
      from = to
    }
    begin = end
  }
  return out
}

/** fold ignores the case of ASCII letters, as the server does. */
function fold(text: string): string {
  return text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase())
}
