// Measures the log view in Chromium, with a task that printed a million lines (100 MB):
//
//   node bench/log.mjs SERVER TOKEN_FILE [RUN]
//
// SERVER is a gateway with an executor, such as that of drover dev. RUN names a run of an earlier measurement; without it,
// the script submits one, and follows it live. CHROMIUM is the browser, /usr/bin/chromium by default.
import { readFileSync } from 'node:fs'
import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'

import { chromium } from 'playwright-core'

const [, , server, tokenFile, existing] = process.argv
if (!server || !tokenFile) throw new Error('usage: node bench/log.mjs SERVER TOKEN_FILE [RUN]')
const lines = Number(process.env.LINES ?? 1_000_000)
const headers = { Authorization: `Bearer ${readFileSync(tokenFile, 'utf8').trim()}` }

const spec = {
  name: 'long log',
  group: '/bench/log',
  tasks: {
    print: {
      steps: [
        { name: 'begin', run: 'echo begin; sleep 8' }, // until the page is open
        {
          name: 'print',
          // 100 bytes a line, some with colours; one line has a text that no other has.
          run: `awk 'BEGIN { for (i = 1; i <= ${lines}; i++) { c = i % 10 ? "" : "\\033[32m"; e = i % 10 ? "         " : "\\033[0m"; `
            + `printf "%s%09d%s the quick brown fox jumps over the lazy dog, and once more over the dog%s\\n", c, i, e, i == ${Math.floor(lines * 0.9)} ? " needle" : "    end" } }'`,
        },
      ],
    },
  },
}

async function call(method, path, body) {
  const answer = await fetch(server + path, { method, headers: { ...headers, 'Content-Type': 'application/json' }, body: body && JSON.stringify(body) })
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`)
  return answer
}

const run = existing ?? (await (await call('POST', '/api/v1/runs', spec)).json()).id
const address = `${server}/runs/${run}/tasks/print`
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox', '--enable-precise-memory-info'] })
const results = { run }
const problems = []

/** open opens a page that records its frames, its long tasks and when the first line was there. */
async function open() {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 }, extraHTTPHeaders: headers })
  page.on('pageerror', (e) => problems.push(e.message))
  page.on('console', (m) => { if (m.type() === 'error') problems.push(m.text()) })
  await page.addInitScript(() => {
    const bench = (window.bench = { first: 0, frames: [], long: [] })
    let last = 0
    const frame = (now) => {
      if (last) bench.frames.push(now - last)
      last = now
      if (!bench.first && document.querySelector('.log .line .text')) bench.first = now
      requestAnimationFrame(frame)
    }
    requestAnimationFrame(frame)
    new PerformanceObserver((list) => { for (const e of list.getEntries()) bench.long.push(e.duration) }).observe({ type: 'longtask', buffered: true })
  })
  return page
}

const at = (values, q) => { const s = [...values].sort((a, b) => a - b); return Math.round((s[Math.min(s.length - 1, Math.floor(s.length * q))] ?? 0) * 10) / 10 }

/** measured runs an action, and returns what the page recorded meanwhile. */
async function measured(page, action) {
  await page.evaluate(() => { window.bench.frames = []; window.bench.long = [] })
  await action()
  const { frames, long } = await page.evaluate(() => window.bench)
  return { frames: frames.length, frame_p50_ms: at(frames, 0.5), frame_p95_ms: at(frames, 0.95), frame_max_ms: at(frames, 1), long_tasks: long.length, longest_task_ms: at(long, 1) }
}

/** footprint returns the size of the document and of the heap, after a collection of garbage. */
async function footprint(page) {
  const session = await page.context().newCDPSession(page)
  await session.send('HeapProfiler.collectGarbage')
  const heap = await page.evaluate(() => performance.memory.usedJSHeapSize)
  const nodes = await page.evaluate(() => document.querySelectorAll('*').length)
  await session.detach()
  return { dom_elements: nodes, heap_mib: Math.round(heap / 1024 / 102.4) / 10 }
}

const loaded = () => {
  const box = document.querySelector('.log .lines').getBoundingClientRect()
  const lines = [...document.querySelectorAll('.log .line:not(.section)')].filter((l) => {
    const r = l.getBoundingClientRect()
    return r.bottom > box.top && r.top < box.bottom
  })
  return lines.length > 10 && lines.every((l) => l.querySelector('.text'))
}

if (!existing) {
  const page = await open()
  await page.goto(address)
  await page.waitForSelector('.log .line .text', { timeout: 60_000 })
  let peak = 0
  results.live = await measured(page, async () => {
    for (;;) {
      peak = Math.max(peak, await page.evaluate(() => performance.memory.usedJSHeapSize))
      if (await page.evaluate(() => document.querySelector('.log .state')?.dataset.state === 'complete')) break
      await sleep(250)
    }
  })
  results.live.heap_peak_mib = Math.round(peak / 1024 / 1024)
  results.live.last_line = await page.evaluate(() => [...document.querySelectorAll('.log .line .n')].at(-1).textContent)
  Object.assign(results.live, await footprint(page))
  await page.close()
}

const page = await open()
const began = performance.now()
await page.goto(address)
await page.waitForFunction(() => window.bench.first > 0, undefined, { timeout: 60_000 })
results.first_line_ms = Math.round(await page.evaluate(() => window.bench.first))
results.first_line_wall_ms = Math.round(performance.now() - began)
await page.waitForFunction(() => document.querySelector('.log .state')?.dataset.state === 'complete', undefined, { timeout: 60_000 })
results.lines = await page.evaluate(() => document.querySelector('.log .count').textContent)
await sleep(1_000)
results.at_rest = await footprint(page)

const box = await page.locator('.log .lines').boundingBox()
await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2)
results.wheel = await measured(page, async () => {
  for (let i = 0; i < 300; i++) {
    await page.mouse.wheel(0, i % 100 < 80 ? 240 : -120)
    await sleep(16)
  }
})
const waits = []
results.jumps = await measured(page, async () => {
  for (let i = 0; i < 50; i++) {
    const begin = performance.now()
    await page.evaluate((share) => { const e = document.querySelector('.log .lines'); e.scrollTop = share * (e.scrollHeight - e.clientHeight) }, (i * 0.618034) % 1)
    await page.waitForFunction(loaded, undefined, { polling: 'raf' })
    waits.push(performance.now() - begin)
    await sleep(50)
  }
})
results.jumps.lines_shown_p50_ms = at(waits, 0.5)
results.jumps.lines_shown_p95_ms = at(waits, 0.95)
results.drag = await measured(page, () => page.evaluate(async () => {
  const e = document.querySelector('.log .lines')
  for (let i = 0; i <= 240; i++) {
    e.scrollTop = (i / 240) * (e.scrollHeight - e.clientHeight)
    await new Promise(requestAnimationFrame)
  }
}))
results.after_scrolling = await footprint(page)

const begin = performance.now()
await page.fill('.log .search input', 'needle')
await page.press('.log .search input', 'Enter')
await page.waitForFunction(() => document.querySelector('.log mark'), undefined, { timeout: 60_000 })
results.search_ms = Math.round(performance.now() - begin)
results.found = await page.evaluate(() => [document.querySelector('.log .hits').textContent, document.querySelector('.log .line.found .n').textContent])
await page.close()
await browser.close()
results.problems = problems
console.log(JSON.stringify(results, undefined, 2))
