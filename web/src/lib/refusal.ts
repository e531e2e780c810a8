/** missingScope returns the scope that a refusal of the gateway names. */
export function missingScope(message: string): string | undefined {
  return /\bthe scope ([\w-]+)/.exec(message)?.[1]
}
