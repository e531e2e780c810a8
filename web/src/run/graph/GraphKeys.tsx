import { KeysHelp, type Keys } from '../../components/KeysHelp'

const keys: Keys = [
  [['→', '←'], 'along an edge, to what depends on the task or what it depends on'],
  [['↓', '↑'], 'next or previous task of the column'],
  [['Home', 'End'], 'first or last task'],
  [['Enter'], 'open the log of the task, the list of a matrix, or a layer'],
  [['+', '-'], 'zoom in or out'],
  [['0'], 'fit the graph into the view'],
  [['f'], 'find a task by its name'],
  [['/'], 'find by name or id, on any page'],
  [['Escape'], 'close the list or the layer, or leave the graph'],
  [['?'], 'this help'],
]

export function GraphKeys({ open, onClose }: { open: boolean; onClose: () => void }) {
  return <KeysHelp title="Keys of the graph" keys={keys} open={open} onClose={onClose} />
}
