// Measures the graph of the run page in Chromium, against a running gateway:
//   DROVER_SERVER=http://127.0.0.1:7080 DROVER_TOKEN_FILE=DATA/token node bench/graph.mjs
// It submits runs whose first tasks wait for an approval, so that nothing executes, and prints a table for docs/benchmarks.md.
import { readFileSync } from 'node:fs'
import { chromium } from 'playwright-core'

const server = process.env.DROVER_SERVER ?? 'http://127.0.0.1:7080'
// The page may come from another server, such as Vite's.
const pages = process.env.DROVER_UI ?? server
const headers = { Authorization: `Bearer ${process.env.DROVER_TOKEN ?? readFileSync(process.env.DROVER_TOKEN_FILE, 'utf8').trim()}` }
const shots = process.env.SHOTS
const only = process.argv[2]

const step = [{ run: 'true' }]
const names = (count, name) => Array.from({ length: count }, (_, i) => name(i))

/** layered has tasks in layers of one size; each depends on some of the layer before. */
function layered(layers, perLayer, degree) {
  const tasks = {}
  for (let l = 0; l < layers; l++) {
    for (let i = 0; i < perLayer; i++) {
      const on = l === 0 ? [] : names(degree, (d) => `task-${l - 1}-${(i + d * (d + 7 * l)) % perLayer}`)
      tasks[`task-${l}-${i}`] = { ...(l === 0 ? { approval: true } : { depends: [...new Set(on)] }), steps: step }
    }
  }
  return tasks
}

const runs = {
  '100 tasks, one of them a matrix of 100': {
    ...layered(11, 9, 2),
    suite: { depends: ['task-0-0'], matrix: { SHARD: names(100, (i) => `shard-${i}`) }, steps: step },
  },
  '2,000 tasks in 20 layers': layered(20, 100, 2),
  '10,000 tasks in 20 layers': layered(20, 500, 2),
}

/** observe runs in the page before everything else. */
function observe() {
  window.longTasks = []
  new PerformanceObserver((list) => { for (const e of list.getEntries()) window.longTasks.push(e.duration) }).observe({ type: 'longtask', buffered: true })
  const look = () => {
    if (document.querySelector('.graph-frame[data-drawn]')) requestAnimationFrame(() => requestAnimationFrame(() => { window.usable = performance.now() }))
    else requestAnimationFrame(look)
  }
  look()
  window.frames95 = () => new Promise((done) => {
    const gaps = []
    let last
    window.stopFrames = () => {
      gaps.sort((a, b) => a - b)
      done({ frames: gaps.length, p95: gaps[Math.floor(0.95 * gaps.length)], worst: gaps.at(-1) })
    }
    const frame = (now) => {
      if (last !== undefined) gaps.push(now - last)
      last = now
      requestAnimationFrame(frame)
    }
    requestAnimationFrame(frame)
  })
}

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] })
const round = (n) => Math.round(n)
console.log('| run | usable after | p95 frame, scroll | p95 frame, zoom | longest task, opening | longest task, moving | longest task, all tasks stopped | elements | tasks of the run, JSON |')
console.log('| --- | --- | --- | --- | --- | --- | --- | --- | --- |')
let failed = false
for (const [title, tasks] of Object.entries(runs)) {
  if (only && !title.startsWith(only)) continue
  const created = await fetch(`${server}/api/v1/runs`, {
    method: 'POST', headers: { ...headers, 'Content-Type': 'application/json' }, body: JSON.stringify({ name: 'graph', group: '/bench/graph', tasks }),
  })
  const run = await created.json()
  if (!created.ok) throw new Error(JSON.stringify(run))
  // The first layer waits for its approval, then nothing changes any more.
  let bytes = 0
  for (;;) {
    const text = await (await fetch(`${server}/api/v1/runs/${run.id}`, { headers })).text()
    bytes = text.length
    const now = Object.values(JSON.parse(text).tasks)
    if (now.filter((t) => t.depends.length === 0).every((t) => t.status === 'waiting_approval')) break
    await new Promise((r) => setTimeout(r, 300))
  }
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, extraHTTPHeaders: headers })
  const page = await context.newPage()
  page.on('pageerror', (e) => { console.error('error:', e.message); failed = true })
  page.on('console', (m) => { if (m.type() === 'error') console.error('console:', m.text()) })
  await page.addInitScript(observe)
  await page.goto(`${pages}/runs/${run.id}`)
  await page.waitForFunction(() => window.usable, undefined, { timeout: 60_000 })
  const usable = await page.evaluate(() => window.usable)
  await page.waitForTimeout(2500) // the answers that follow the opening are part of it
  const opening = await page.evaluate(() => Math.max(0, ...window.longTasks.splice(0)))
  if (shots) await page.screenshot({ path: `${shots}/${title.slice(0, 3).trim()}.png` })
  const frame = await page.locator('.graph-frame').boundingBox()
  await page.mouse.move(frame.x + frame.width / 2, frame.y + frame.height / 2)

  let elements = 0
  const measure = async (wheels, each) => {
    const result = page.evaluate(() => window.frames95())
    for (let i = 0; i < wheels; i++) {
      await each(i)
      if (i % 10 === 0) elements = Math.max(elements, await page.evaluate(() => document.querySelectorAll('*').length))
    }
    await page.evaluate(() => window.stopFrames())
    return result
  }
  // A layer that can be opened is: its tasks are drawn too.
  if ((await page.locator('.card[role=button]').count()) > 0 && !title.startsWith('100 ')) {
    await page.locator('.card[role=button]').nth(3).click({ force: true })
    await page.waitForTimeout(1500)
  }
  const scroll = await measure(120, (i) => page.mouse.wheel(i % 40 < 20 ? 60 : -60, i % 60 < 30 ? 90 : -90))
  await page.keyboard.down('Control')
  const zoom = await measure(120, (i) => page.mouse.wheel(0, i % 40 < 20 ? 60 : -60))
  await page.keyboard.up('Control')
  await page.getByRole('button', { name: 'Fit' }).click()
  const far = await measure(60, (i) => page.mouse.wheel(i % 20 < 10 ? 30 : -30, i % 30 < 15 ? 40 : -40))
  if (shots) await page.screenshot({ path: `${shots}/${title.slice(0, 3).trim()}-fit.png` })
  const moving = await page.evaluate(() => Math.max(0, ...window.longTasks.splice(0)))
  // Every task changes at once: as many events as there are tasks.
  await fetch(`${server}/api/v1/runs/${run.id}/stop`, { method: 'POST', headers: { ...headers, 'Content-Type': 'application/json' }, body: JSON.stringify({ force: true }) })
  await page.locator('.head .status', { hasText: 'stopped' }).waitFor({ timeout: 120_000 })
  await page.waitForTimeout(5000)
  const stopping = await page.evaluate(() => Math.max(0, ...window.longTasks.splice(0)))
  if (shots) await page.screenshot({ path: `${shots}/${title.slice(0, 3).trim()}-stopped.png` })
  const p95 = Math.max(scroll.p95, far.p95)
  console.log(`| ${title} | ${round(usable)} ms | ${round(p95)} ms | ${round(zoom.p95)} ms | ${round(opening)} ms | ${round(moving)} ms | ${round(stopping)} ms | ${elements} | ${round(bytes / 1024)} KiB |`)
  failed ||= usable > 2000 || p95 > 50 || zoom.p95 > 50 || opening > 200 || moving > 200 || stopping > 200
  await context.close()
}
await browser.close()
if (failed) {
  console.error('A goal is not met: usable within 2 s, frames within 50 ms (p95), no task of more than 200 ms.')
  process.exitCode = 1
}
