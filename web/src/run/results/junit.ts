/** A TestCase is one test of a report in JUnit's format. All of it is text of the user. */
export interface TestCase {
  name: string
  suite: string
  outcome: 'failed' | 'skipped' | 'passed'
  seconds?: number
  message: string
  /** The text of the failure, which often has a stack trace. */
  details: string
}

/** The part of an XML node that the reader needs, also of parsers that are not a browser's. */
export interface XmlNode {
  nodeType: number
  nodeName: string
  textContent: string | null
  childNodes: ArrayLike<XmlNode>
  getAttribute?(name: string): string | null
}

const maxDetails = 64 * 1024
/** More tests than this of one report are left out. */
export const maxTests = 200_000
const element = 1

/** casesOf returns the tests of a parsed report. It reads nested suites to any depth without recursion. */
export function casesOf(root: XmlNode): TestCase[] {
  const cases: TestCase[] = []
  const open: { node: XmlNode; suite: string }[] = [{ node: root, suite: '' }]
  while (open.length > 0 && cases.length < maxTests) {
    const { node, suite } = open.pop()!
    const name = local(node)
    if (name === 'testcase') {
      cases.push(caseOf(node, suite))
      continue
    }
    const inner = name === 'testsuite' ? (node.getAttribute?.('name') ?? '') || suite : suite
    const children = elements(node)
    for (let i = children.length - 1; i >= 0; i--) open.push({ node: children[i]!, suite: inner })
  }
  return cases
}

function caseOf(node: XmlNode, suite: string): TestCase {
  const of = elements(node)
  const problem = of.find((e) => local(e) === 'failure' || local(e) === 'error')
  const skipped = of.find((e) => local(e) === 'skipped')
  const why = problem ?? skipped
  const time = node.getAttribute?.('time')?.replaceAll(',', '')
  const seconds = time ? Number(time) : undefined
  return {
    name: node.getAttribute?.('name') ?? '',
    suite: node.getAttribute?.('classname') || suite,
    outcome: problem ? 'failed' : skipped ? 'skipped' : 'passed',
    seconds: seconds !== undefined && Number.isFinite(seconds) ? seconds : undefined,
    message: why?.getAttribute?.('message') ?? '',
    details: (why?.textContent ?? '').trim().slice(0, maxDetails),
  }
}

const local = (node: XmlNode) => node.nodeName.replace(/^.*:/, '')
const elements = (node: XmlNode) => Array.from(node.childNodes).filter((c) => c.nodeType === element)

/** parseReport parses a report. A fault is why it could not. Declarations of entities are refused: they can grow without bound. */
export function parseReport(text: string, parse: (text: string) => XmlNode): { cases: TestCase[]; fault?: string } {
  if (/<!(DOCTYPE|ENTITY)/i.test(text)) return { cases: [], fault: 'it declares a document type, which is not read' }
  let root: XmlNode
  try {
    root = parse(text)
  } catch (error) {
    return { cases: [], fault: error instanceof Error ? error.message : String(error) }
  }
  return { cases: casesOf(root) }
}

/** parseInBrowser parses XML as data: nothing of it becomes a part of the page. */
export function parseInBrowser(text: string): XmlNode {
  const document = new DOMParser().parseFromString(text, 'application/xml')
  const fault = document.querySelector('parsererror')
  if (fault) throw new Error((fault.textContent ?? 'it is not XML').trim().split('\n').slice(0, 3).join(' ').slice(0, 300))
  return document as unknown as XmlNode
}

const order = { failed: 0, skipped: 1, passed: 2 }

/** failuresFirst sorts the tests: failures, then skipped, then passed, each by its suite and name. */
export function failuresFirst<T extends TestCase>(cases: readonly T[]): T[] {
  const collator = new Intl.Collator(undefined, { numeric: true })
  return [...cases].sort((a, b) => order[a.outcome] - order[b.outcome] || collator.compare(a.suite, b.suite) || collator.compare(a.name, b.name))
}
