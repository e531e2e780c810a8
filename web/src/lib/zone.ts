/** timestampIn prints a time in a time zone, with its name: UTC without one, and for names that the browser does not know. */
export function timestampIn(time: string, zone = 'UTC'): string {
  const print = (timeZone: string) => `${new Intl.DateTimeFormat('sv-SE', { dateStyle: 'short', timeStyle: 'medium', timeZone }).format(new Date(time))} ${timeZone}`
  try {
    return print(zone)
  } catch {
    return print('UTC')
  }
}
