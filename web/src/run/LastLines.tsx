import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useMemo } from 'react'

import type { Run, Task } from '../api/client'
import { pieces } from './log/ansi'
import { LineText } from './log/LineText'
import { failedStep, tailQuery } from './log/tail'

/** LastLines shows how the log of a failed task ends, and leads to it. It shows nothing while there is nothing to show: the task has a link to its log. */
export function LastLines({ run, name, task }: { run: Run; name: string; task: Task }) {
  const { data } = useQuery(tailQuery(run.id, name, task))
  const lines = useMemo(() => data?.map(pieces), [data])
  if (!lines?.length) return null
  const step = failedStep(task)
  const of = step === undefined ? name : `${name}, ${task.steps[step]!.name || `step ${step + 1}`}`
  return (
    <figure className="last-lines" aria-label={`Last lines of ${of}`}>
      <figcaption>Last lines of <Link to="/runs/$id/tasks/$task" params={{ id: run.id, task: name }}>{of}</Link></figcaption>
      <pre tabIndex={0} role="region" aria-label="Last lines"><div>{lines.map((line, i) => <div key={i}><LineText pieces={line} /></div>)}</div></pre>
    </figure>
  )
}
