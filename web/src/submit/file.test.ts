import { describe, expect, it } from 'vitest'

import { admissionOf, fileOf, inOrder, inputFaults, inputsOf, newKey, withChanges, type Input } from './file'

const file = `# why
name: a # what
group: /a/b
inputs:
  size: {type: number}
tasks:
  one:
    steps:
      - run: |
          echo "{{ x }}" # no comment
`

describe('inputs', () => {
  const inputs = { at: {}, size: {}, zone: {} } as unknown as Record<string, Input>
  it('have the order of the file', () => {
    expect(inOrder(inputs, inputsOf('inputs:\n  zone: {}\n  at: {}\n  size: {}\n')).map(([name]) => name)).toEqual(['zone', 'at', 'size'])
    expect(inOrder(inputs, inputsOf('{"inputs": {"zone": {}, "size": {}}}')).map(([name]) => name)).toEqual(['zone', 'size', 'at'])
    expect(inputsOf('inputs:\n  b: {}\n  2: {}\n  1: {}\n').names).toEqual(['b', '2', '1'])
  })
  it('have the faults of values that the file does not give', () => {
    const fault = (path: string) => ({ path, detail: `of ${path}`, line: 3 })
    const [at, size, zone, unknown, task] = ['input_values.at', 'input_values.size', 'input_values.zone', 'input_values.none', 'tasks.a'].map(fault)
    const found = inputFaults([at!, size!, zone!, unknown!, task!], inputs, inputsOf('input_values: {size: x, zone: y}\n'), { size: 'z' })
    expect([...found.ofInputs]).toEqual([['at', 'of input_values.at'], ['size', 'of input_values.size']])
    expect(found.others).toEqual([zone, unknown, task])
  })
  it('have values in the file', () => {
    expect(inputsOf('input_values: {size: 3, zone: a}\n').values).toEqual({ size: 3, zone: 'a' })
    for (const text of ['', 'a: [', 'inputs: 3', 'input_values: [1]']) expect(inputsOf(text)).toEqual({ names: [], values: {} })
  })
  it('are read in spite of faulty aliases elsewhere, and of many', () => {
    const rest = 'inputs:\n  size: {}\ninput_values: {size: 3}\n'
    expect(inputsOf(`${rest}steps:\n  - run: *.go\n`)).toEqual({ names: ['size'], values: { size: 3 } })
    expect(inputsOf(`x: &x [1]\nmany: [${Array(200).fill('*x').join(', ')}]\n${rest}`)).toEqual({ names: ['size'], values: { size: 3 } })
  })
  it('have no values if their own aliases are faulty, or too many', () => {
    expect(inputsOf('inputs:\n  size: {}\ninput_values: {size: *.go}\n')).toEqual({ names: ['size'], values: {} })
    expect(inputsOf('input_values: *.go\n').values).toEqual({})
    expect(inputsOf(`x: &x [1]\ninput_values: {a: [${Array(200).fill('*x').join(', ')}]}\n`).values).toEqual({})
    expect(inputsOf('x: &x {size: 3}\ninput_values: *x\n').values).toEqual({ size: 3 })
  })
})

describe('withChanges', () => {
  it('returns a file without changes as it is', () => {
    expect(withChanges('not: [yaml', { values: {} })).toBe('not: [yaml')
  })
  it('sets values and the admission, and leaves the rest', () => {
    const changed = withChanges(file, { values: { size: '3', name: 'x: "y"\n- z' }, admission: 'manual' })
    expect(changed).toMatch(/^# why\nname: a # what\n/)
    expect(changed).toContain('      - run: |\n          echo "{{ x }}" # no comment\n')
    expect(changed).toContain('input_values:\n  size: "3"\n')
    expect(admissionOf(changed)).toBe('manual')
    expect(withChanges(changed, { values: { size: '4' }, admission: 'auto' })).toContain('size: "4"')
    expect(admissionOf(withChanges(changed, { values: {}, admission: 'auto' }))).toBe('auto')
  })
  it('says why it cannot', () => {
    expect(() => withChanges('a: [', { values: {}, admission: 'auto' })).toThrow(/cannot be changed/)
    expect(admissionOf('a: [')).toBe('auto')
  })
})

it('writes a specification as a file', () => {
  expect(fileOf({ name: 'a', tasks: { one: { steps: [{ run: 'a\nb\n' }] } } })).toBe('name: a\ntasks:\n  one:\n    steps:\n      - run: |\n          a\n          b\n')
})

it('makes keys that differ', () => {
  expect(newKey()).toMatch(/^[0-9a-f]{32}$/)
  expect(newKey()).not.toBe(newKey())
})
