import { Loaded } from '../components/Loaded'
import { ExecutorTable } from './ExecutorTable'
import { useLiveQuery } from './live'
import { executorsQuery } from './queries'

/** Executors lists all executors that are not removed. */
export function Executors() {
  const query = useLiveQuery(executorsQuery)
  return (
    <>
      <h1 className="visually-hidden">Executors</h1>
      <Loaded query={query}>
        {(executors) => (
          <ExecutorTable
            executors={executors}
            empty={<><h2>No executor has registered.</h2><p>Start one on a host that has the token of an executor:</p><pre>drover start executor --pool NAME</pre></>}
          />
        )}
      </Loaded>
    </>
  )
}
