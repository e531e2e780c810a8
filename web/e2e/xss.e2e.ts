import type { Page } from 'playwright-core'
import { beforeAll, expect, it } from 'vitest'

import type { components } from '../src/api/schema.gen'
import { browserSuite, settled } from './browser'
import { on, path } from './names'

type Run = components['schemas']['Run']

/** Texts that run, or load something, in a page that takes them for markup. Those without a slash are also names of groups. */
const corpus = [
  '<img src=x onerror=injected=1>',
  '<script>injected=2</script>',
  '"><svg onload=injected=3>',
  "' autofocus onfocus=injected=4 x='",
  'javascript:injected=5',
  '<style>*{display:none}',
  '<iframe srcdoc="<img src=x onerror=parent.injected=6>">',
  '<math><mtext><table><mglyph><style><img src=x onerror=injected=7>',
  '{{constructor.constructor("injected=8")()}}',
  '<a href=javascript:injected=9>open<a>',
  '<object data=javascript:injected=10><embed src=javascript:injected=11>',
  '<form action=javascript:injected=12><button>Send',
  '<base href=http:evil.invalid><link rel=stylesheet href=http:evil.invalid>',
  '<body onload=injected=13>',
  '\u202etxet desrever\u202c <video><source onerror=injected=14>',
]
const [first] = corpus as [string]

/** Sequences of terminals that must not become links or markup. */
const terminal = [
  '\u001b]8;;javascript:injected=20\u0007a link\u001b]8;;\u0007',
  '\u001b[31m<img src=x onerror=injected=21>\u001b[0m',
  '\u001b]0;<script>injected=22</script>\u0007a title',
  '\u001b[38;2;1;2;3;url(javascript:injected=23)mcolours',
  'http://evil.invalid/"onmouseover="injected=24',
]

const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`

const spec = {
  name: first,
  group: `/web/${corpus[2]!}`,
  annotations: Object.fromEntries(corpus.map((text, i) => [`payload.${i}`, text])),
  tasks: {
    print: {
      matrix: { TEXT: [first, corpus[2]!, corpus[4]!] },
      steps: [
        { name: corpus[1]!, run: [...corpus, ...terminal].map((line) => `printf '%s\\n' ${quoted(line)}`).join('\n') },
        { name: corpus[2]!, run: `printf 'text=%s\\n' ${quoted(first)} >> "$DROVER_OUTPUT"` },
        {
          run: `mkdir -p out; cd out
echo x > ${quoted(first)}
echo '<script>injected=30</script>' > page.html
echo '<svg xmlns="http://www.w3.org/2000/svg" onload="injected=31"><script>injected=32</script></svg>' > image.svg
printf '%s' ${quoted(`<testsuite name="s" tests="1" failures="1"><testcase name="&lt;img src=x onerror=injected=33&gt;"><failure message="&lt;img src=x onerror=injected=34&gt;">${first.replaceAll('<', '&lt;').replaceAll('>', '&gt;')}</failure></testcase></testsuite>`)} > junit.xml`,
        },
        { save_artifacts: { name: 'report', paths: ['out'], junit: true } },
        { run: 'exit 1' },
      ],
    },
    after: { depends: ['print'], steps: [{ run: 'true' }] },
    decide: { approval: true, steps: [{ run: 'true' }] },
  },
}

/** elements returns what only markup of a payload could have made. */
const elements = (page: Page) => page.evaluate(() => [...document.querySelectorAll('iframe, object, embed, base, style:not(head style), script:not([src^="/assets/"]), [onerror], [onload], [onfocus], a[href^="javascript:" i], form[action^="javascript:" i], img[src="x"]')].map((e) => e.outerHTML.slice(0, 200)))

browserSuite('text of users', ({ api, open }) => {
  let id: string
  let task: string
  let pages: Record<string, string>
  beforeAll(async () => {
    const run = await api.submit(spec)
    id = run.id
    await api.awaitTask(id, 'after', 'skipped')
    await api.call('POST', `/api/v1/runs/${id}/tasks/decide/reject`, { reason: corpus[2] })
    await api.await(id)
    await api.submit({ ...spec, tasks: { decide: spec.tasks.decide } }) // stays on the page of approvals
    await api.call('PUT', '/api/v1/schedules/payload', { spec: { ...spec, tasks: { decide: spec.tasks.decide } }, cron: ['0 2 * * *'], note: first })
    await api.call('PUT', '/api/v1/changegroups/payload', { max_running: 1 })
    await api.call('PUT', '/api/v1/webhooks/payload', { url: 'http://127.0.0.1:9/<img src=x onerror=injected=40>', secret: 'sixteen bytes or more' })
    task = Object.keys((await api.get<Run>(`/api/v1/runs/${id}`)).tasks!).find((name) => name.startsWith('print['))!
    const [executor] = (await api.get<{ executors: { id: string; pool: string }[] }>('/api/v1/executors')).executors
    const artifact = (file = '') => `${path.results(id)}?task=${encodeURIComponent(task)}&artifact=report&path=${encodeURIComponent(file)}`
    pages = {
      runs: path.runs, graph: path.run(id), timeline: path.timeline(id), tasks: path.tasks(id), log: path.task(id, task), rejected: path.task(id, 'decide'),
      approvals: path.approvals, executors: path.executors, pools: path.pools, schedules: path.schedules, webhooks: path.webhooks,
      results: path.results(id), artifact: artifact(), page: artifact('out/page.html'), image: artifact('out/image.svg'), report: artifact('out/junit.xml'),
      spec: path.spec(id), json: `${path.spec(id)}?view=json`, details: path.details(id), groups: path.groups, audit: path.audit, tokens: path.tokens,
      copied: `${path.submit}?from=${id}`, changeGroups: path.changeGroups, changeGroup: `${path.changeGroups}/payload`, schedule: `${path.schedules}/payload`,
      webhook: `${path.webhooks}/payload`, executor: `${path.executors}/${executor!.id}`, pool: `${path.pools}/${executor!.pool}`, retention: path.retention,
      filters: `${path.runs}?group=${encodeURIComponent(`/web/${first}`)}&annotation=${encodeURIComponent(`a=${corpus[2]}`)}`,
      unknown: path.task(id, first),
      address: `/${encodeURIComponent(first)}`,
    }
  })

  /** visitAll shows all pages, none of which may have made an element of a payload or have run one. */
  const visitAll = async (page: Page, faults: string[]) => {
    const made: string[] = []
    for (const [name, address] of Object.entries(pages)) {
      await page.goto(address)
      await settled(page)
      made.push(...(await elements(page)).map((e) => `${name}: ${e}`))
      expect(faults, name).toEqual([])
    }
    expect(made).toEqual([])
  }

  it('is never taken for markup', async () => {
    const { page, faults } = await open()
    await visitAll(page, faults)
  }, 300_000)

  it('is shown as it is', async () => {
    const { page, faults } = await open()
    await page.goto(path.run(id))
    await on.heading(page, first).waitFor()
    await page.goto(pages.log!)
    for (const line of corpus.slice(0, 5)) await on.logText(page, line).waitFor()
    await page.goto(pages.rejected!)
    await page.getByText(corpus[2]!).first().waitFor()
    expect(faults).toEqual([])
  })

  it('is harmless in every text that the API could answer', async () => {
    const { page, faults } = await open()
    // The keys whose values are texts of users, of executors and of plugins. The server refuses some of these values; the
    // page must not rely on it.
    const texts = new Set(['name', 'run_name', 'reason', 'note', 'detail', 'title', 'message', 'subject', 'actor', 'created_by', 'group', 'url', 'last_error', 'driver', 'os', 'arch', 'version', 'text', 'image', 'label', 'description', 'key', 'path', 'executor', 'resource', 'value', 'prefix', 'timezone', 'when', 'cause', 'user_agent'])
    const poison = (value: unknown, key = ''): unknown => {
      if (Array.isArray(value)) return value.map((v) => poison(v, key))
      if (value !== null && typeof value === 'object') return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, poison(v, k)]))
      return typeof value === 'string' && texts.has(key) ? value + corpus.join(' ') + terminal.join(' ') : value
    }
    await page.route(/\/api\/v1\/(?!events|.*\/logs)/, async (route) => {
      if (route.request().method() !== 'GET') return route.continue()
      const response = await route.fetch()
      if (!(response.headers()['content-type'] ?? '').includes('json')) return route.fulfill({ response })
      return route.fulfill({ response, json: poison(await response.json()) })
    })
    await visitAll(page, faults)
  }, 300_000)

  it('does nothing in a file of an artifact that is opened by its address', async () => {
    const { page, faults } = await open()
    const artifact = `/api/v1/runs/${id}/artifacts/${encodeURIComponent(task)}/report`
    const { entries } = await api.get<{ entries: { path: string; type: string }[] }>(`${artifact}/entries`)
    const files = entries.filter((e) => e.type === 'file').map((e) => e.path)
    expect(files.length, JSON.stringify(entries)).toBe(4)
    for (const file of files) {
      const address = `${artifact}?path=${encodeURIComponent(file)}`
      const response = await page.request.get(address)
      expect(response.status(), file).toBe(200)
      const headers = response.headers()
      // A browser that shows it must not run it as a page of the gateway.
      const harmless = headers['content-disposition']?.startsWith('attachment') || headers['content-security-policy']?.includes('sandbox')
      expect(harmless, `${file}: ${JSON.stringify(headers)}`).toBe(true)
      expect(headers['x-content-type-options']).toBe('nosniff')
    }
    expect(faults).toEqual([])
  })
})
