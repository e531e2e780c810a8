import { expect, test } from 'vitest'

import { Parser, type Message } from './stream'

function parse(parts: string[], most?: number): Message[] {
  const parser = new Parser('', most)
  return parts.flatMap((part) => [...parser.read(part)])
}

test('reads events, wherever the stream is divided', () => {
  const text = ': hello\n\nid: 7\nevent: run\ndata: {"a":1}\n\ndata: first\ndata:second\r\n\r\nevent: empty\n\n'
  const want = [{ type: 'run', data: '{"a":1}', id: '7' }, { type: 'message', data: 'first\nsecond', id: '7' }]
  expect(parse([text])).toEqual(want)
  expect(parse([...text])).toEqual(want)
})

test('a position is read without an event', () => {
  const position = (id: string) => ({ type: '', data: '', id })
  expect(parse(['id: 7\n\n: hello\n\nevent: run\n\nid: 8\r\n\r\nid: 9\n'])).toEqual([position('7'), position('8')])
})

test('an event that is cut off is none', () => {
  expect(parse(['id: 1\nevent: run\ndata: {"a":1}\n\nid: 2\nevent: run\ndata: {"a"'])).toEqual([{ type: 'run', data: '{"a":1}', id: '1' }])
  expect(parse(['data: whole line\n'])).toEqual([])
})

test.each([['one line', 'data: ', 'x'.repeat(100)], ['many lines', '', 'data: x\n'.repeat(20)]])('an event without an end of %s is refused', (_, head, more) => {
  expect(() => parse([head, more, more, more], 300)).toThrow('without an end')
})

test('events that end are not added up', () => {
  expect(parse(Array.from({ length: 100 }, () => 'data: xxxxxxxxxx\n\n'), 300)).toHaveLength(100)
})
