import createClient, { type Middleware } from 'openapi-fetch'

import { base } from '../lib/base'
import { clock } from '../lib/clock'
import type { components, paths } from './schema.gen'

type Schemas = components['schemas']
export type Run = Schemas['Run']
export type Task = Schemas['Task']
export type Status = Schemas['Status']
export type Phase = Schemas['Phase']
export type Result = Schemas['Result']
export type Event = Schemas['Event']
export type LogChunk = Schemas['LogChunk']
export type Problem = Schemas['Problem']

/** ProblemError is an answer of the gateway that is not a success. */
export class ProblemError extends Error {
  readonly status: number
  readonly code: string
  readonly problem: Partial<Problem>

  constructor(status: number, problem: Partial<Problem>) {
    super(problem.detail || problem.title || `The gateway answered with status ${status}.`)
    this.name = 'ProblemError'
    this.status = status
    this.code = problem.code ?? ''
    this.problem = problem
  }
}

/** ForeignAnswer is an answer that is not of the gateway: something between it and the browser answered. */
export class ForeignAnswer extends Error {
  readonly status: number

  constructor(status: number) {
    super(status < 400 ? 'Something other than the gateway answered.' : `The gateway cannot be reached: a proxy answered with status ${status}.`)
    this.name = 'ForeignAnswer'
    this.status = status
  }
}

let sessionEnded = () => {}

/** onSessionEnd sets what is called when the gateway refuses a call because the caller has no session. */
export function onSessionEnd(call: () => void) {
  sessionEnded = call
}

export const isJSON = (response: Response) => /^application\/([\w.-]+\+)?json\b/.test(response.headers.get('Content-Type') ?? '')

/** problemOf returns what is wrong with an answer that is not a success. */
export async function problemOf(response: Response): Promise<ProblemError | ForeignAnswer> {
  let problem: unknown
  try {
    if (isJSON(response)) problem = await response.json()
  } catch {
    // It was cut off, or is no JSON.
  }
  if (typeof problem !== 'object' || problem === null) return new ForeignAnswer(response.status)
  if (response.status === 401) sessionEnded()
  return new ProblemError(response.status, problem)
}

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

/** api calls the gateway; each call throws a ProblemError, a ForeignAnswer, or a TypeError if the gateway cannot be reached. */
export const api = createClient<paths>({ baseUrl: base || '/', fetch: fetchTimed, querySerializer: { array: { style: 'form', explode: true } } })
api.use(failures)

/** isTemporary reports whether the same call may succeed later. */
export function isTemporary(error: unknown): boolean {
  return !(error instanceof ProblemError) || error.status >= 500 || error.status === 429
}

/** messageOf returns a text for the user. */
export function messageOf(error: unknown): string {
  if (error instanceof ProblemError) return error.message
  if (error instanceof TypeError) return 'The gateway cannot be reached.'
  if (error instanceof SyntaxError) return 'The answer of the gateway was cut off.'
  return error instanceof Error ? error.message : String(error)
}
