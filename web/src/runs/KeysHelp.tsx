import { Modal } from '../components/Modal'

const keys: readonly (readonly [string[], string])[] = [
  [['j', '↓'], 'next run'],
  [['k', '↑'], 'previous run'],
  [['Page Down', 'Page Up'], 'ten runs on or back'],
  [['Home'], 'newest run'],
  [['Enter'], 'open the run'],
  [['x'], 'select the run, or not'],
  [['Escape'], 'select none'],
  [['/'], 'filter by group'],
  [['?'], 'this help'],
]

export function KeysHelp({ open, onClose }: { open: boolean; onClose: () => void }) {
  return (
    <Modal title="Keys of the list" open={open} onClose={onClose}>
      <dl className="shortcuts">{keys.map(([of, text]) => <div key={text}><dt>{of.map((k) => <kbd key={k}>{k}</kbd>)}</dt><dd>{text}</dd></div>)}</dl>
      <div className="pager"><button onClick={onClose}>Close</button></div>
    </Modal>
  )
}
