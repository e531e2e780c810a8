import { useEffect, useMemo, useRef, useState, type KeyboardEvent } from 'react'

import { timestamp, useNow, useZone } from '../lib/time'
import { capacity, ceiling, requested, samplesOf, valueAt, within, type Sample, type Step } from './demand'
import './FleetChart.css'
import type { Schemas } from './queries'

const ranges = [
  { label: '15 min', millis: 15 * 60_000 },
  { label: '1 h', millis: 60 * 60_000 },
  { label: '6 h', millis: 6 * 60 * 60_000 },
  { label: '24 h', millis: 24 * 60 * 60_000 },
] as const

const height = 220
const margin = { top: 8, right: 8, bottom: 22, left: 34 }

/**
 * FleetChart shows the slots of a fleet's instances over time, from the ledger, and the demand, which the page has
 * noted since it was loaded.
 */
export function FleetChart({ fleet, instances }: { fleet: Schemas['Fleet']; instances: readonly Schemas['FleetInstance'][] }) {
  const [millis, setMillis] = useState<number>(ranges[0].millis)
  const [cursor, setCursor] = useState<number>()
  const [frame, width] = useWidth()
  const zone = useZone()
  const now = Math.floor(useNow() / 5_000) * 5_000 // drawn again every 5 seconds
  const per = fleet.spec.capacity_per_instance || 1
  const slots = useMemo(() => capacity(instances, per), [instances, per])
  const coming = useMemo(() => requested(instances, per), [instances, per])

  const to = now + 5_000
  const from = to - millis
  const samples = samplesOf(fleet)
  const shown = samples.filter((s, i) => s.at <= to && (samples[i + 1]?.at ?? to) >= from)
  const slotSteps = within(slots, from, to)
  const comingSteps = within(coming, from, to)
  const top = ceiling(Math.max(...slotSteps.map((s, i) => s.value + valueAt(coming, slotSteps[i]!.at)), ...comingSteps.map((s) => s.value + valueAt(slots, s.at)), ...shown.map((s) => s.busy + s.queued)))

  const x = (at: number) => margin.left + ((Math.max(from, Math.min(to, at)) - from) / millis) * (width - margin.left - margin.right)
  const y = (value: number) => height - margin.bottom - (value / top) * (height - margin.top - margin.bottom)
  const at = cursor === undefined ? to : from + cursor * millis
  const sample = sampleAt(samples, at)
  const first = samples[0]?.at

  // Requested slots are drawn on top of those that are ready.
  const totals = [...new Set([...slotSteps, ...comingSteps].map((s) => s.at))].sort((a, b) => a - b).map((t) => ({ at: t, value: valueAt(slots, t) + valueAt(coming, t) }))

  const move = (e: KeyboardEvent) => {
    const step = { ArrowLeft: -0.02, ArrowRight: 0.02 }[e.key]
    if (e.key === 'Escape') setCursor(undefined)
    if (step === undefined) return
    e.preventDefault()
    setCursor((old) => Math.max(0, Math.min(1, (old ?? 1) + step)))
  }
  const reading = [
    { name: 'Demand', look: 'demand', value: sample && sample.busy + sample.queued },
    { name: 'In use', look: 'busy', value: sample?.busy },
    { name: 'Slots of ready instances', look: 'capacity', value: valueAt(slots, at) },
    { name: 'with requested instances', look: 'requested', value: valueAt(slots, at) + valueAt(coming, at) },
  ]
  return (
    <div className="chart">
      <header>
        <ul className="legend" aria-label={cursor === undefined ? 'Now' : `At ${timestamp(new Date(at).toISOString(), zone)}`}>
          {cursor !== undefined && <li className="muted">{timestamp(new Date(at).toISOString(), zone)}</li>}
          {reading.map((r) => (
            <li key={r.name}>
              <svg width="18" height="10" aria-hidden="true">{r.look === 'capacity' ? <rect className="capacity swatch" x="1" y="1" width="16" height="8" /> : <path className={r.look} d="M0 5h18" />}</svg>
              {r.name} <b>{r.value ?? 'unknown'}</b>
            </li>
          ))}
        </ul>
        <div className="ranges" role="group" aria-label="Period">
          {ranges.map((r) => <button key={r.label} aria-pressed={millis === r.millis} onClick={() => setMillis(r.millis)}>{r.label}</button>)}
        </div>
      </header>
      <div
        ref={frame} className="plot" tabIndex={0} role="slider" aria-label="Time in the chart of demand and capacity" aria-orientation="horizontal"
        aria-valuemin={0} aria-valuemax={100} aria-valuenow={Math.round(100 * (cursor ?? 1))}
        aria-valuetext={`${timestamp(new Date(at).toISOString(), zone)}: ${reading.map((r) => `${r.name} ${r.value ?? 'unknown'}`).join(', ')}`}
        onKeyDown={move} onBlur={() => setCursor(undefined)} onPointerLeave={() => setCursor(undefined)}
        onPointerMove={(e) => {
          const box = e.currentTarget.getBoundingClientRect()
          setCursor(Math.max(0, Math.min(1, (e.clientX - box.left - margin.left) / (box.width - margin.left - margin.right))))
        }}
      >
        {width > 0 && (
          <svg aria-hidden="true">
            {(first === undefined || first > from) && <rect className="unknown" x={x(from)} y={margin.top} width={Math.max(0, x(first ?? to) - x(from))} height={height - margin.top - margin.bottom} />}
            {valueTicks(top).map((v) => (
              <g key={v}><line className="grid" x1={margin.left} x2={width - margin.right} y1={y(v)} y2={y(v)} /><text x={margin.left - 6} y={y(v) + 4} textAnchor="end">{v}</text></g>
            ))}
            {timeTicks(from, to, width, zone === 'utc').map((t) => <text key={t.at} x={x(t.at)} y={height - 6} textAnchor="middle">{t.text}</text>)}
            <path className="capacity area" d={`${path(slotSteps, to, x, y)}V${y(0)}H${x(from)}Z`} />
            <path className="capacity" d={path(slotSteps, to, x, y)} />
            <path className="requested" d={path(totals, to, x, y)} />
            {spans(shown, to).map((span) => (
              <g key={span[0]!.at}>
                <path className="busy" d={path(span.map((s) => ({ at: s.at, value: s.busy })), span.at(-1)!.at, x, y)} />
                <path className="demand" d={path(span.map((s) => ({ at: s.at, value: s.busy + s.queued })), span.at(-1)!.at, x, y)} />
              </g>
            ))}
            {cursor !== undefined && <line className="cross" x1={x(at)} x2={x(at)} y1={margin.top} y2={height - margin.bottom} />}
          </svg>
        )}
      </div>
      <p className="note">{first === undefined ? 'No demand is known yet.' : `The demand is known since this page began to read it (${timestamp(new Date(first).toISOString(), zone)}); the capacity is from the ledger of the fleet.`}</p>
    </div>
  )
}

/** spans returns the samples between gaps; the last sample holds until now. */
function spans(samples: readonly Sample[], to: number): Sample[][] {
  const all: Sample[][] = []
  for (const s of samples) {
    if (s.gap || all.length === 0) all.push([])
    all.at(-1)!.push(s)
  }
  const last = samples.at(-1)
  if (last && to - last.at < 20_000) all.at(-1)!.push({ ...last, at: to })
  return all
}

function sampleAt(samples: readonly Sample[], at: number): Sample | undefined {
  const next = samples.findIndex((s) => s.at > at)
  if (next < 0) return samples.at(-1)
  return samples[next]!.gap ? undefined : samples[next - 1]
}

/** path draws steps until a time. */
function path(steps: readonly Step[], to: number, x: (at: number) => number, y: (value: number) => number): string {
  if (steps.length === 0) return ''
  return `${steps.map((s, i) => (i === 0 ? `M${x(s.at)} ${y(s.value)}` : `H${x(s.at)}V${y(s.value)}`)).join('')}H${x(to)}`
}

function valueTicks(top: number): number[] {
  const parts = [4, 5, 3].find((n) => Number.isInteger(top / n)) ?? 1
  return Array.from({ length: parts + 1 }, (_, i) => (top / parts) * i)
}

/** timeTicks returns round times, so many that their texts do not touch. */
function timeTicks(from: number, to: number, width: number, utc: boolean): { at: number; text: string }[] {
  const minute = 60_000
  const most = Math.max(2, Math.floor(width / 90))
  const every = [1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720].map((n) => n * minute).find((n) => (to - from) / n <= most) ?? 1440 * minute
  const shift = utc ? 0 : new Date(to).getTimezoneOffset() * minute
  const format = new Intl.DateTimeFormat('sv-SE', { hour: '2-digit', minute: '2-digit', timeZone: utc ? 'UTC' : undefined })
  const ticks = []
  for (let at = Math.ceil((from - shift) / every) * every + shift; at <= to; at += every) ticks.push({ at, text: format.format(at) })
  return ticks
}

/** useWidth measures an element, and again when it changes. */
function useWidth() {
  const element = useRef<HTMLDivElement>(null)
  const [width, setWidth] = useState(0)
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry!.contentRect.width)))
    observer.observe(element.current!)
    return () => observer.disconnect()
  }, [])
  return [element, width] as const
}
