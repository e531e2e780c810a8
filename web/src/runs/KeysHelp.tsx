import { KeysHelp as Help, type Keys } from '../components/KeysHelp'

const keys: Keys = [
  [['j', '↓'], 'next run'],
  [['k', '↑'], 'previous run'],
  [['Page Down', 'Page Up'], 'ten runs on or back'],
  [['Home'], 'newest run'],
  [['Enter'], 'open the run'],
  [['x'], 'select the run, or not'],
  [['Escape'], 'select none'],
  [['f'], 'filter by group'],
  [['/'], 'find by name or id, on any page'],
  [['?'], 'this help'],
]

export function KeysHelp({ open, onClose }: { open: boolean; onClose: () => void }) {
  return <Help title="Keys of the list" keys={keys} open={open} onClose={onClose} />
}
