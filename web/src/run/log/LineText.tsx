import type { Piece } from './ansi'
import './ansi.css'

/** LineText shows the pieces of a line with their colours. Their text is never markup. */
export function LineText({ pieces }: { pieces: readonly Piece[] }) {
  return pieces.map((p, i) => {
    if (p.look === '' && !p.color && !p.background) return p.found ? <mark key={i}>{p.text}</mark> : p.text
    const style = { ...(p.color ? { '--fg': `rgb(${p.color})` } : {}), ...(p.background ? { backgroundColor: `rgba(${p.background}, 0.35)` } : {}) }
    const look = p.color ? `${p.look} ansi-rgb`.trim() : p.look
    return p.found ? <mark key={i} className={look} style={style}>{p.text}</mark> : <span key={i} className={look} style={style}>{p.text}</span>
  })
}
