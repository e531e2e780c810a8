import { CompletionContext } from '@codemirror/autocomplete'
import { EditorState } from '@codemirror/state'
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'

import { complete, tasksOf, type Schema } from './complete'

const schema = JSON.parse(readFileSync(new URL('../../../api/schemas/run.json', import.meta.url), 'utf8')) as Schema

/** offered returns what is offered at the mark | of a text. */
function offered(text: string): string[] {
  const pos = text.indexOf('|')
  const state = EditorState.create({ doc: text.slice(0, pos) + text.slice(pos + 1) })
  const result = complete(() => schema, () => ['/acme/web', '/acme/docs'])(new CompletionContext(state, pos, true))
  return result?.options.map((o) => o.label) ?? []
}

const run = 'name: a\ngroup: /a/b\ntasks:\n  one:\n    steps:\n      - run: echo\n  two:\n'

describe('complete', () => {
  it('offers the groups in which the user may submit', () => {
    expect(offered('name: a\ngroup: /ac|')).toEqual(['/acme/web', '/acme/docs'])
    expect(offered('name: /ac|')).toEqual([])
  })

  it('offers the keys of the place', () => {
    expect(offered('na|')).toEqual(expect.arrayContaining(['name', 'group', 'tasks', 'inputs']))
    expect(offered(`${run}    |`)).toEqual(expect.arrayContaining(['depends', 'steps', 'matrix', 'timeout']))
    expect(offered(`${run}    |`)).not.toContain('tasks')
    expect(offered(`${run}    steps:\n      - |`)).toEqual(expect.arrayContaining(['run', 'name', 'save_workspace']))
    expect(offered(`${run}    steps:\n      - run: echo\n        wh|`)).toContain('when')
    expect(offered(`${run}    steps:\n    - run: echo\n      wh|`)).toContain('when')
    expect(offered(`${run}    steps:\n    - run: echo\n    - |`)).toContain('run')
    expect(offered(`${run}    requires:\n      # why\n\n      |`)).toEqual(expect.arrayContaining(['driver', 'os', 'arch', 'labels']))
    expect(offered('inputs:\n  size:\n    |')).toEqual(expect.arrayContaining(['type', 'default', 'options']))
  })
  it('offers the values of the place', () => {
    expect(offered('admission: |')).toEqual(['auto', 'manual'])
    expect(offered(`${run}    allow_failure: |`)).toEqual(['true', 'false'])
    expect(offered(`${run}    steps:\n      - run: x\n        when: on|`)).toEqual(['on_success', 'on_failure', 'always', 'on_stop'])
    expect(offered(`${run}    depends:\n      - |`)).toEqual(expect.arrayContaining(['one', 'two', 'task']))
    expect(offered(`${run}    depends:\n      - task: |`)).toEqual(expect.arrayContaining(['one']))
  })
  it('offers nothing in texts, comments and unknown places', () => {
    expect(offered(`${run}    steps:\n      - run: |\n          ec`.replace('run: |', 'run: >') + '|')).toEqual([])
    expect(offered('# na|')).toEqual([])
    expect(offered('nonsense:\n  |')).toEqual([])
    expect(offered('name: a: |')).toEqual([])
    expect(offered('tasks: {a: |}')).toEqual([])
  })
  it('knows the tasks', () => {
    expect(tasksOf(`${run}    depends: [one]\nenvironment:\n  X: 1\n`)).toEqual(['one', 'two'])
    expect(tasksOf('tasks: {}')).toEqual([])
  })
})
