import './KeysHelp.css'
import { Modal } from './Modal'

/** Keys are rows of a help: some keys, and what they do. */
export type Keys = readonly (readonly [keys: readonly string[], text: string])[]

export function KeysHelp({ title, keys, open, onClose }: { title: string; keys: Keys; open: boolean; onClose: () => void }) {
  return (
    <Modal title={title} open={open} onClose={onClose}>
      <dl className="shortcuts">{keys.map(([of, text]) => <div key={text}><dt>{of.map((k) => <kbd key={k}>{k}</kbd>)}</dt><dd>{text}</dd></div>)}</dl>
      <div className="pager"><button onClick={onClose}>Close</button></div>
    </Modal>
  )
}
