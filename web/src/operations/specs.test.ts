import { expect, test } from 'vitest'

import { draftOf, labelsOf, specOf as poolSpecOf } from './pool'
import type { Schemas } from './queries'
import { when } from './schedule'
import { specOf as webhookSpecOf } from './webhook'

const pool: Schemas['Pool'] = {
  name: 'linux', driver: 'docker', os: 'linux', arch: '', labels: { zone: 'a', empty: '' }, privileged: false, shared: true, default: false,
  exec: 'forbidden', flavor: { name: 'large', memory: '8Gi' }, kubernetes: { service_account: 'builds' }, online: 1, draining: 0, offline: 0,
  slots: 4, slots_used: 0, queued: 0, running: 0, max_running: 3, image: 'alpine', allowed_volumes: ['build-*'],
  allowed_host_paths: ['/srv/*'], allowed_devices: ['/dev/kvm'],
  image_rewrites: { 'docker.io': 'mirror.example.com/hub' },
  registries: { 'mirror.example.com': { username: 'puller', password_from: { provider: 'pulls', name: 'mirror' } } },
}

test('a pool that the form did not change is put as it is', () => {
  expect(poolSpecOf(pool, draftOf(pool))).toEqual({
    driver: 'docker', os: 'linux', arch: undefined, labels: { zone: 'a', empty: '' }, max_running: 3, privileged: false, shared: true, default: false,
    exec: 'forbidden', flavor: { name: 'large', memory: '8Gi' }, kubernetes: { service_account: 'builds' }, image: 'alpine',
  }) // the gateway keeps volumes, paths and devices of hosts, rewrites and registries, also those that changed meanwhile
})

test('a pool without a size of slots gets none', () => {
  expect(poolSpecOf({ ...pool, flavor: {} }, draftOf({ ...pool, flavor: {} })).flavor).toBeUndefined()
})

test('labels are read one a line', () => {
  expect(labelsOf(' zone = a \n\nflag\nurl=x=y')).toEqual({ zone: 'a', flag: '', url: 'x=y' })
})

const webhook: Schemas['Webhook'] = {
  name: 'ci', url: 'https://example.com/hook', events: ['run', 'task', 'stage', 'exec', 'approval_wanted'], enabled: true, created_at: '', updated_at: '',
  delivered: 7, failures: 2,
}

test('a webhook is put without its secret and without a position', () => {
  const spec = webhookSpecOf(webhook, { enabled: false })
  expect(spec).toMatchObject({ url: webhook.url, enabled: false })
  expect(spec.events).toBeUndefined() // it named none
  expect(Object.keys(spec)).not.toContain('secret')
  expect(Object.keys(spec)).not.toContain('from')
})

test('a webhook keeps the events that it names', () => {
  expect(webhookSpecOf({ ...webhook, events: ['run'] }).events).toEqual(['run'])
  expect(webhookSpecOf({ ...webhook, format: 'slack', events: ['run', 'approval_wanted'] }).events).toBeUndefined()
})

test('the times of a schedule', () => {
  expect(when({ cron: ['0 3 * * *'], timezone: 'Europe/Berlin' })).toBe('0 3 * * * (Europe/Berlin)')
  expect(when({ intervals: [{ every: '1h0m0s', offset: '5m0s' }] })).toBe('every 1 h, shifted by 5 min')
  expect(when({})).toBe('only when triggered')
})
