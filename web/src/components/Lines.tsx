import { useVirtualizer } from '@tanstack/react-virtual'
import { useMemo, useRef } from 'react'

import './Lines.css'

/** Longer lines are cut: a browser lays out one line of a megabyte for seconds. */
const maxLine = 10_000

/** Lines shows text of any length with numbers. It is never markup. */
export function Lines({ label, text, wrap = false }: { label: string; text: string; wrap?: boolean }) {
  const lines = useMemo(() => {
    const all = text.split('\n')
    if (all.at(-1) === '') all.pop()
    return all
  }, [text])
  const scroller = useRef<HTMLDivElement>(null)
  const view = useVirtualizer({ count: lines.length, getScrollElement: () => scroller.current, estimateSize: () => 20, overscan: 30, measureElement: (e) => e.getBoundingClientRect().height })
  const digits = `${String(lines.length).length + 2}ch`
  return (
    <div className={wrap ? 'code wrap' : 'code'} ref={scroller} tabIndex={0} role="region" aria-label={label}>
      <div className="all" style={{ height: view.getTotalSize() }}>
        {view.getVirtualItems().map((item) => (
          <div key={item.key} data-index={item.index} ref={wrap ? view.measureElement : undefined} className="line" style={{ transform: `translateY(${item.start}px)` }}>
            <span className="n" style={{ width: digits }} aria-hidden="true">{item.index + 1}</span>
            <span>{lines[item.index]!.slice(0, maxLine)}{lines[item.index]!.length > maxLine && <em className="muted"> … {(lines[item.index]!.length - maxLine).toLocaleString()} more characters</em>}</span>
          </div>
        ))}
      </div>
    </div>
  )
}
