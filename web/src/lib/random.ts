/** randomKey returns a key for a call that must happen once. Pages without TLS have no crypto.randomUUID. */
export function randomKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, '0')).join('')
}
