import { useId, type ReactNode } from 'react'

/** Section is a part of a page, with its own title. */
export function Section({ title, end, children }: { title: string; end?: ReactNode; children: ReactNode }) {
  const id = useId()
  return (
    <section className="section" aria-labelledby={id}>
      <header><h2 id={id}>{title}</h2>{end && <div className="end">{end}</div>}</header>
      {children}
    </section>
  )
}
