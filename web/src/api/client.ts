import createClient, { type Middleware } from 'openapi-fetch'

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

export async function problemOf(response: Response): Promise<ProblemError> {
  let problem: Partial<Problem> = {}
  try {
    problem = (await response.json()) as Problem
  } catch {
    // Something between the browser and the gateway answered.
  }
  return new ProblemError(response.status, problem)
}

const failures: Middleware = {
  async onResponse({ response }) {
    if (!response.ok) throw await problemOf(response)
  },
}

/** api calls the gateway; each call throws a ProblemError, or a TypeError if the gateway cannot be reached. */
export const api = createClient<paths>({ baseUrl: '/', querySerializer: { array: { style: 'form', explode: true } } })
api.use(failures)

/** messageOf returns a text for the user. */
export function messageOf(error: unknown): string {
  if (error instanceof ProblemError) return error.message
  if (error instanceof TypeError) return 'The gateway cannot be reached.'
  return error instanceof Error ? error.message : String(error)
}
