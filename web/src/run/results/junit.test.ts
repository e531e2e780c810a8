import { DOMParser } from '@xmldom/xmldom'
import { expect, test } from 'vitest'

import { failuresFirst, parseReport, type XmlNode } from './junit'

const parse = (text: string) => new DOMParser({ onError: (level, message) => { if (level !== 'warning') throw new Error(message) } }).parseFromString(text, 'application/xml') as unknown as XmlNode

const report = `<?xml version="1.0"?>
<testsuites>
  <testsuite name="outer">
    <testcase name="adds" time="1,234.5"/>
    <testsuite name="inner">
      <testcase classname="pkg.Sub" name="fails &lt;img src=x onerror=alert(1)&gt;"><failure message="want 1"><![CDATA[<script>alert(1)</script>
at line 3]]></failure><system-out>x</system-out></testcase>
      <testcase name="breaks"><error/></testcase>
    </testsuite>
    <testcase name="waits"><skipped message="later"/></testcase>
  </testsuite>
</testsuites>`

test('failures come first, and markup in them is text', () => {
  const { cases, fault } = parseReport(report, parse)
  expect(fault).toBeUndefined()
  expect(failuresFirst(cases)).toEqual([
    { name: 'breaks', suite: 'inner', outcome: 'failed', seconds: undefined, message: '', details: '' },
    { name: 'fails <img src=x onerror=alert(1)>', suite: 'pkg.Sub', outcome: 'failed', seconds: undefined, message: 'want 1', details: '<script>alert(1)</script>\nat line 3' },
    { name: 'waits', suite: 'outer', outcome: 'skipped', seconds: undefined, message: 'later', details: '' },
    { name: 'adds', suite: 'outer', outcome: 'passed', seconds: 1234.5, message: '', details: '' },
  ])
})

test('a report that is no XML, or declares entities, has a fault', () => {
  expect(parseReport('<testsuite><testcase', parse).fault).toBeTruthy()
  const bomb = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><testsuite><testcase name="&b;"/></testsuite>'
  expect(parseReport(bomb, parse)).toMatchObject({ cases: [], fault: expect.stringContaining('document type') as string })
})

test('suites nest to any depth', () => {
  const deep = '<testsuite>'.repeat(2000) + '<testcase name="x"/>' + '</testsuite>'.repeat(2000)
  expect(parseReport(deep, parse).cases).toHaveLength(1)
})
