/** quoted quotes a word for a shell, as the hints of the command line do. */
export function quoted(word: string): string {
  if (/^[a-zA-Z0-9\-_./:@%+,]+$/.test(word)) return word
  // Control characters would change the command when it is pasted.
  return `'${word.replace(/\p{Cc}/gu, '\ufffd').replaceAll("'", `'\\''`)}'`
}
