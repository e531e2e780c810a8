/** What a line says that tells why something failed, in most languages and tools. */
const failure = /\b(?:\w*error|\w*exception|fatal|panic(?:ked)?|fail(?:ed|ure|s)?|traceback|assert(?:ion)?|not found|denied|killed|undefined|cannot|can't)\b|✕|✗|✘/i

/** A summary of success is no failure. */
const harmless = /\b(?:0|no) (?:errors?|failures?|failed)\b/i

/** failingLine returns the line that probably says why a step failed: the last that says so, or else the last with a text. */
export function failingLine(lines: readonly string[]): number {
  const says = lines.findLastIndex((line) => failure.test(line) && !harmless.test(line))
  if (says >= 0) return says
  const last = lines.findLastIndex((line) => line.trim() !== '')
  return last >= 0 ? last : Math.max(0, lines.length - 1)
}
