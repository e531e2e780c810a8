/** The run files of the folder examples that run as they are, or nearly. */
const files = import.meta.glob<string>(
  ['../../../examples/hello.yaml', '../../../examples/service.yaml', '../../../examples/secret-file.yaml', '../../../examples/tutorial/*.yaml'],
  { query: '?raw', import: 'default', eager: true },
)

export interface Template {
  name: string
  /** What its first comment says. */
  about: string
  text: string
}

/** templates are the examples, the tutorial last. */
export const templates: readonly Template[] = Object.entries(files)
  .map(([path, text]) => template(path.replace(/^.*\/examples\//, '').replace(/\.yaml$/, ''), text))
  .sort((a, b) => Number(a.name.includes('/')) - Number(b.name.includes('/')) || a.name.localeCompare(b.name))

/** template leaves out what a file says to editors and to readers of a terminal. */
export function template(name: string, text: string): Template {
  const lines = text.split('\n').filter((l) => !/^# yaml-language-server:|^# {2,}drover run /.test(l))
  const about = []
  for (const line of lines) {
    if (!line.startsWith('# ')) break
    about.push(line.slice(2))
  }
  return { name, about: about.join(' '), text: lines.join('\n') }
}
