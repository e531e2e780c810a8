import type { components } from './schema.gen'

// What the worker of the event stream needs too: nothing here knows the page.

export type Problem = components['schemas']['Problem']

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

/** noteSessionEnd says that the gateway has refused a call because the caller has no session. */
export const noteSessionEnd = () => sessionEnded()

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

/** isTemporary reports whether the same call may succeed later. */
export function isTemporary(error: unknown): boolean {
  return !(error instanceof ProblemError) || error.status >= 500 || error.status === 429
}

/** messageOf returns a text for the user. */
export function messageOf(error: unknown): string {
  if (error instanceof ProblemError) return error.message
  if (error instanceof DOMException && error.name === 'TimeoutError') return 'The gateway has not answered in time.'
  if (error instanceof TypeError) return 'The gateway cannot be reached.'
  if (error instanceof SyntaxError) return 'The answer of the gateway was cut off.'
  return error instanceof Error ? error.message : String(error)
}
