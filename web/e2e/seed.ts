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

/** seed submits runs in several states, and returns the pages that show them. */
export async function seed(api: Client): Promise<Seeded> {
  const gate = new Gate()
  try {
    return await submitAll(api, gate)
  } catch (error) {
    gate.open()
    throw error
  }
}

async function submitAll(api: Client, gate: Gate): Promise<Seeded> {
  const finished = new Gate()
  finished.open()
  const succeeded = await api.submit({ ...specs.fanOut(finished), name: 'nightly', group: '/web/seed' })
  const failed = await api.submit({ ...specs.failing, group: '/web/seed' })
  const approval = await api.submit({ ...specs.approval, group: '/web/seed' })
  await api.await(succeeded.id)
  await api.await(failed.id)
  await api.awaitTask(approval.id, 'release', 'waiting_approval')
  const running = await api.submit({ ...specs.fanOut(gate), name: 'pull request', group: '/web/seed' })
  await api.awaitTask(running.id, 'prepare', 'success')
  await api.call('PUT', '/api/v1/changegroups/production', { max_running: 1 })
  await api.submit({ ...specs.waits(gate), name: 'deploy', group: '/web/seed', changegroups: ['production'] })
  await api.submit({ ...specs.waits(gate), name: 'deploy', group: '/web/seed', changegroups: ['production'] })
  await api.call('PUT', '/api/v1/schedules/nightly', { spec: { ...specs.fanOut(finished), name: 'nightly', group: '/web/seed' }, cron: ['0 2 * * *'], timezone: 'Europe/Berlin', note: 'tests every night' })
  await api.call('PUT', '/api/v1/schedules/weekly', { spec: { ...specs.approval, group: '/web/seed' }, cron: ['0 6 * * 1'], paused: true, note: 'paused during the freeze' })
  await api.call('PUT', '/api/v1/webhooks/chat', { url: 'http://127.0.0.1:9/hook', secret: 'sixteen bytes or more', events: ['run'], group: '/web/seed' })
  const busy = await seedFleet(api, gate)
  const [executor] = (await api.get<{ executors: { id: string; pool: string }[] }>('/api/v1/executors')).executors
  return {
    pages: {
      runs: path.runs,
      'runs-filtered': `${path.runs}?group=/web/none`,
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
      fleet: `${path.fleets}/spot`,
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

/** seedFleet returns a run of three tasks on a fleet of local processes that has room for two of them. */
async function seedFleet(api: Client, gate: Gate) {
  const { url, temporal, dir } = inject('server')
  const name = 'spot'
  await api.call('PUT', `/api/v1/pools/${name}`, { driver: 'shell' })
  await api.call('PUT', `/api/v1/fleets/${name}`, {
    pool: name, plugin: 'process', labels: { zone: 'west' }, max_use_count: 5, max_instances: 2, update_interval: '1s', update_interval_when_expecting: '200ms', hold_down: '0s',
    plugin_config: {
      name, state_dir: join(dir, name), stop_timeout: '5s',
      command: [
        join(binaries, 'drover'), 'start', 'executor', '--id', '{{.ID}}', '--pool', name, '--driver', 'shell', '--slots', '1', '--state-dir', '{{.Dir}}/state',
        '--gateway-url', url, '--token-file', join(dir, 'data', 'token'), '--temporal', temporal,
      ],
      env: { DROVER_EXECUTOR__TEMPORARY: 'true', DROVER_EXECUTOR__LABELS: `drover-fleet=${name},drover-instance={{.ID}}` },
    },
  })
  const task = { pool: name, steps: [{ run: `echo begun; ${gate.wait}` }] }
  const run = await api.submit({ name: 'load test', group: '/web/seed', tasks: { first: task, second: task, third: task } })
  await until('two tasks on the fleet', async () => {
    const { tasks, reason } = await api.get<components['schemas']['Run']>(`/api/v1/runs/${run.id}`)
    const all = Object.values(tasks ?? {})
    const fleet = await api.get<components['schemas']['Fleet']>(`/api/v1/fleets/${name}`)
    return { done: all.filter(({ status }) => status === 'running').length === 2 || undefined, state: `${reason} ${all.map((t) => `${t.status} ${t.reason}`).join(', ')}; ${JSON.stringify(fleet.status)}` }
  })
  return run
}
