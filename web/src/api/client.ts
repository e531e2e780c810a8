import createClient, { type Client, type Middleware } from 'openapi-fetch'

import { base } from '../lib/base'
import { clock } from '../lib/clock'
import { ForeignAnswer, isJSON, problemOf } from './problem'
import type { components, paths } from './schema.gen'

type Schemas = components['schemas']
export type Run = Schemas['Run']
export type Task = Schemas['Task']
export type Status = Schemas['Status']
export type Phase = Schemas['Phase']
export type Result = Schemas['Result']
export type Event = Schemas['Event']
export type LogChunk = Schemas['LogChunk']
export type LogEnd = Schemas['LogEnd']

/** Answers of the gateway that are no success throw, and so do answers that are not of the gateway. */
const failures: Middleware = {
  async onResponse({ response }) {
    if (!response.ok) throw await problemOf(response)
    if (response.status !== 204 && !isJSON(response)) throw new ForeignAnswer(response.status)
  },
}

/** fetchTimed is fetch. It also learns the time of the server from the answer. */
export async function fetchTimed(input: Request | URL | string, init?: RequestInit): Promise<Response> {
  const requested = performance.now()
  const response = await fetch(input, init)
  clock.observe(response.headers.get('Date'), requested)
  return response
}

/** Api calls the gateway; each call throws a ProblemError, a ForeignAnswer, or a TypeError if the gateway cannot be reached. */
export type Api = Client<paths>

function apiWith(fetch: (request: Request) => Promise<Response>): Api {
  const client = createClient<paths>({ baseUrl: base || '/', fetch, querySerializer: { array: { style: 'form', explode: true } } })
  client.use(failures)
  return client
}

/** api reads from the gateway. What changes something has a client of its own: see useAction. */
export const api: Pick<Api, 'GET'> = apiWith(fetchTimed)

/** How long a call that changes something may take. A browser lets requests wait for a connection without any limit. */
const patience = 60_000

/** apiUntil returns a client for calls that change something. They end with the signal, and when the gateway has not answered for a while. */
export function apiUntil(signal?: AbortSignal, millis = patience): Api {
  const signals = signal ? [signal] : []
  return apiWith((request) => fetchTimed(request, { signal: AbortSignal.any([request.signal, AbortSignal.timeout(millis), ...signals]) }))
}
