import { join } from 'node:path'

import { inject } from 'vitest'

import type { components } from '../src/api/schema.gen'
import { until, type Client } from './drover'
import { binaries } from './env'
import { path } from './names'
import { Gate, specs } from './specs'

/** What the pages of a server with some work show. */
export interface Seeded {
  pages: Record<string, string>
  close: () => void
}

/** A Growth makes the seed's fleet grow in steps, long enough apart to be seen in its chart. */
export interface Growth {
  /** The milliseconds between two steps. */
  pause: number
  /** begins gets the fleet's page before the first step. */
  begins: (fleet: string) => Promise<void>
}

/** seed submits runs in several states, and returns the pages that show them. */
export async function seed(api: Client, growth?: Growth): Promise<Seeded> {
  const gate = new Gate()
  try {
    return await submitAll(api, gate, growth)
  } catch (error) {
    gate.open()
    throw error
  }
}

async function submitAll(api: Client, gate: Gate, growth?: Growth): Promise<Seeded> {
  const succeeded = await api.submit(nightly)
  const failed = await api.submit(coloured)
  const approval = await api.submit({ ...specs.approval, group: '/shop/web' })
  await api.await(succeeded.id)
  await api.await(failed.id)
  await api.awaitTask(approval.id, 'release', 'waiting_approval')
  const running = await api.submit(pipeline(gate))
  await api.awaitTask(running.id, 'lint', 'failed')
  await api.awaitTask(running.id, 'docs', 'success')
  await api.awaitTask(running.id, 'integration', 'running')
  await api.awaitTask(running.id, 'deploy', 'waiting_approval')
  await api.call('PUT', '/api/v1/changegroups/production', { max_running: 1 })
  await api.submit({ ...specs.waits(gate), name: 'deploy', group: '/infra/production', changegroups: ['production'] })
  await api.submit({ ...specs.waits(gate), name: 'deploy', group: '/infra/production', changegroups: ['production'] })
  await api.call('PUT', '/api/v1/schedules/nightly', { spec: nightly, cron: ['0 2 * * *'], timezone: 'Europe/Berlin', note: 'tests every night' })
  await api.call('PUT', '/api/v1/schedules/weekly', { spec: { ...specs.approval, group: '/shop/web' }, cron: ['0 6 * * 1'], paused: true, note: 'paused during the freeze' })
  await api.call('PUT', '/api/v1/webhooks/chat', { url: 'http://127.0.0.1:9/hook', secret: 'sixteen bytes or more', events: ['run'], group: '/shop' })
  const busy = await seedFleet(api, gate, growth)
  const [executor] = (await api.get<{ executors: { id: string; pool: string }[] }>('/api/v1/executors')).executors
  return {
    pages: {
      runs: path.runs,
      'runs-filtered': `${path.runs}?group=/shop/none`,
      'run-on-fleet': path.tasks(busy.id),
      'run-graph': path.run(running.id),
      'run-failed': path.run(failed.id),
      'run-timeline': path.timeline(succeeded.id),
      'run-tasks': path.tasks(running.id),
      'task-log': path.task(failed.id, 'test'),
      'task-approval': path.task(approval.id, 'release'),
      'task-not-started': path.task(failed.id, 'deploy'),
      'run-results': path.results(failed.id),
      'run-spec': path.spec(failed.id),
      'run-details': path.details(approval.id),
      groups: path.groups,
      submit: path.submit,
      audit: path.audit,
      approvals: path.approvals,
      executors: path.executors,
      executor: `${path.executors}/${executor!.id}`,
      pools: path.pools,
      pool: `${path.pools}/${executor!.pool}`,
      fleets: path.fleets,
      fleet: spot.page,
      'change-groups': path.changeGroups,
      'change-group': `${path.changeGroups}/production`,
      schedules: path.schedules,
      schedule: `${path.schedules}/nightly`,
      webhooks: path.webhooks,
      webhook: `${path.webhooks}/chat`,
      tokens: path.tokens,
      roles: path.roles,
      retention: path.retention,
      'no-such-run': path.run('01m83ps6va2g1cdk0dehtknvnf'),
      'no-such-page': '/no/such/page',
    },
    close: () => gate.open(),
  }
}

const quick = (text: string) => ({ steps: [{ run: `echo ${text}` }] })

/** A run that succeeds. Its tasks take long enough to be seen in the timeline. */
const nightly = {
  name: 'nightly', group: '/shop/nightly',
  tasks: {
    prepare: { steps: [{ run: 'sleep 0.2; echo prepared' }] },
    test: { depends: ['prepare'], matrix: { PACKAGE: ['api', 'cli', 'docs', 'storage', 'web', 'workflows'] }, steps: [{ run: 'sleep 0.$(printf %s "$PACKAGE" | wc -c); echo "tested $PACKAGE"' }] },
    report: { depends: ['test'], steps: [{ run: 'sleep 0.1; mkdir -p out; echo 6 packages > out/summary.txt' }, { save_artifacts: { name: 'summary', paths: ['out'] } }] },
  },
}

/** A run with tasks in several states: some succeeded, one failed and may, one runs until the gate opens, and one waits for approval. */
const pipeline = (gate: Gate) => ({
  name: 'pull request', group: '/shop/api', annotations: { branch: 'faster-sums', commit: '4f2a9c1' },
  tasks: {
    checkout: quick('checked out'),
    build: { depends: ['checkout'], matrix: { ARCH: ['amd64', 'arm64'], OS: ['linux', 'darwin', 'windows'] }, ...quick('built') },
    unit: { depends: ['checkout'], matrix: { PACKAGE: ['api', 'cli', 'sums', 'web'] }, ...quick('tested') },
    docs: { depends: ['checkout'], ...quick('written') },
    lint: { depends: ['checkout'], allow_failure: true, steps: [{ run: 'echo "sum.go:12: unused variable"; exit 1' }] },
    integration: { depends: ['build'], steps: [{ run: `echo begun; ${gate.wait}` }] },
    deploy: { depends: ['build', 'unit'], approval: { approvers: 2, timeout: '24h' }, ...quick('deployed') },
    verify: { depends: ['deploy', 'integration'], ...quick('verified') },
    notify: { finally: true, ...quick('notified') },
  },
})

const cases = ['adds', 'averages', 'divides', 'rounds']
const took = (i: number) => `0.${(i * 37 + 12) % 90 + 10}`

/** The output of a test runner, for printf. */
const output = [
  ...cases.map((name, i) => `\\033[32mok\\033[0m    sums/${name}  \\033[2m${took(i)}s\\033[0m`),
  '\\033[33mskip\\033[0m  sums/overflows',
  '\\033[1;31mFAIL\\033[0m  sums/totals',
  '\\033[31m    total is 3, want 4\\033[0m',
  '    at sum.go:12',
].join('\\n')

const junit = `<testsuite name="sums" tests="6" failures="1" skipped="1">${cases.map((name, i) => `<testcase name="${name}" time="${took(i)}"/>`).join('')}\
<testcase name="overflows" time="0"><skipped message="needs 8 GB"/></testcase>\
<testcase name="totals" time="0.2"><failure message="total is 3, want 4">at sum.go:12</failure></testcase></testsuite>`

/** A run that fails, with colours in its log and a failure in its test report. */
const coloured = {
  ...specs.failing, name: 'tests', group: '/shop/api',
  tasks: {
    ...specs.failing.tasks,
    test: {
      depends: ['build'],
      steps: [
        { name: 'modules', run: "i=1; while [ $i -le 40 ]; do printf '\\033[2mmodule %s of 40: in the cache\\033[0m\\n' $i; i=$((i+1)); done" },
        { name: 'tests', run: `mkdir -p out; printf '%s' '${junit}' > out/junit.xml; echo '<h1>report</h1>' > out/index.html; printf '${output}\\n'; exit 3` },
        { name: 'report', when: 'always', save_artifacts: { name: 'report', paths: ['out'], junit: true } },
      ],
    },
  },
}

const spot = { name: 'spot', page: `${path.fleets}/spot` }

/** seedFleet returns a run on a fleet of local processes that has begun a rollout. Without growth, the fleet has room for three of five tasks. */
async function seedFleet(api: Client, gate: Gate, growth?: Growth) {
  const { url, temporal, dir } = inject('server')
  const { name } = spot
  await api.call('PUT', `/api/v1/pools/${name}`, { driver: 'shell' })
  const executor = [
    join(binaries, 'drover'), 'start', 'executor', '--id', '{{.ID}}', '--pool', name, '--driver', 'shell', '--slots', '1', '--state-dir', '{{.Dir}}/state',
    '--gateway-url', url, '--token-file', join(dir, 'data', 'token'), '--temporal', temporal,
  ]
  const put = (stop_timeout: string) => api.call('PUT', `/api/v1/fleets/${name}`, {
    pool: name, plugin: 'process', labels: { zone: 'west' }, max_use_count: 5, max_instances: growth ? 10 : 3, update_interval: '1s', update_interval_when_expecting: '200ms', hold_down: '0s', ...(growth && { policy: [{ idle_time: '1h' }] }),
    plugin_config: {
      name, state_dir: join(dir, name), stop_timeout,
      // A machine takes a while to start.
      command: growth ? ['/bin/sh', '-c', `sleep ${growth.pause / 4_000}; exec "$@"`, 'start', ...executor] : executor,
      env: { DROVER_EXECUTOR__TEMPORARY: 'true', DROVER_EXECUTOR__LABELS: `drover-fleet=${name},drover-instance={{.ID}}` },
    },
  })
  const load = async (run: string, shards: number, busy: number) => {
    const { id } = await api.submit({
      name: run, group: '/shop/load',
      tasks: { load: { pool: name, matrix: { SHARD: Array.from({ length: shards }, (_, i) => `${i + 1}`) }, steps: [{ run: `echo begun; ${gate.wait}` }] } },
    })
    await until(`${busy} tasks of run ${run} on the fleet`, async () => {
      const { tasks, reason } = await api.get<components['schemas']['Run']>(`/api/v1/runs/${id}`)
      const all = Object.values(tasks ?? {})
      const fleet = await api.get<components['schemas']['Fleet']>(`/api/v1/fleets/${name}`)
      return { done: all.filter(({ status }) => status === 'running').length === busy || undefined, state: `${reason} ${all.map((t) => `${t.status} ${t.reason}`).join(', ')}; ${JSON.stringify(fleet.status)}` }
    })
    return { id }
  }
  await put('5s')
  if (growth) {
    await growth.begins(spot.page)
    for (const [run, shards] of [['smoke test', 1], ['fuzz', 1], ['benchmarks', 2]] as const) {
      await load(run, shards, shards)
      await new Promise((resolve) => setTimeout(resolve, growth.pause))
    }
  }
  const run = await load('load test', growth ? 2 : 5, growth ? 2 : 3)
  if (growth) await new Promise((resolve) => setTimeout(resolve, growth.pause / 2))
  await put('10s')
  await until('the rollout', async () => {
    const { phase, outdated, ready } = await api.get<components['schemas']['FleetRollout']>(`/api/v1/fleets/${name}/rollout`)
    const begun = growth ? ready > 0 : outdated === 3
    return { done: (phase === 'progressing' && begun) || undefined, state: `${phase}, ${outdated} outdated, ${ready} ready` }
  })
  return run
}
