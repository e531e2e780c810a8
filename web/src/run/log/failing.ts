import { pieces } from './ansi'

/** What a line says that tells why something failed, in most languages and tools. */
const failure = /\b(?:\w*error|\w*exception|fatal|panic(?:ked)?|fail(?:ed|ure|s)?|traceback|assert(?:ion)?|not found|denied|killed|undefined|cannot|can't)\b|✕|✗|✘/i

/** A summary of success is no failure. */
const harmless = /\b(?:0|no) (?:errors?|failures?|failed)\b/i

/** A word alone, such as FAIL, is the summary of what stands above it. */
const summary = /^\W*\w+\W*$/

/** failingLine returns the line that probably says why a step failed: the last that says so, or else the last with a text. */
export function failingLine(raw: readonly string[]): number {
  const lines = raw.map((line) => pieces(line).map((p) => p.text).join(''))
  const fails = (line: string) => failure.test(line) && !harmless.test(line)
  const says = lines.findLastIndex((line) => fails(line) && !summary.test(line))
  if (says >= 0) return says
  const sums = lines.findLastIndex(fails)
  if (sums >= 0) return sums
  const last = lines.findLastIndex((line) => line.trim() !== '')
  return last >= 0 ? last : Math.max(0, lines.length - 1)
}
