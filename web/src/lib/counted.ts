/** counted writes a number of things: "1 task", "2,000 tasks". */
export function counted(n: number, thing: string): string {
  return `${n.toLocaleString('en')} ${thing}${n === 1 ? '' : 's'}`
}
