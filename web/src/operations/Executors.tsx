import { Empty } from '../components/Command'
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
            empty={<Empty title="No executor has registered." needs="drainExecutor" text="drover start executor --pool NAME">An executor registers when it is started, on a host that has a token for it</Empty>}
          />
        )}
      </Loaded>
    </>
  )
}
