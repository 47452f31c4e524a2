import { deflateRawSync, inflateRawSync } from 'node:zlib'
import { isStorable } from '../../base/text.ts'
import { addTallies, type Tallies } from '../../jobs/tally.ts'
import { type NewSeriesRow, SERIES_STEPS, type SeriesQuery, type SeriesRow } from '../contract/series.ts'
import type { Reading } from './reading.ts'
import { type Access, all, get, run } from './sql.ts'

const INSERT = `INSERT INTO sluice.series (step, part, at, source, data) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`
const SELECT = 'SELECT at, data FROM sluice.series WHERE step = $1 AND part = $2 AND at >= $3 AND at < $4 ORDER BY at'
const FINER = 'SELECT part, at, data FROM sluice.series WHERE step = $1 AND at >= $2 AND at < $3'
const FORGET = 'DELETE FROM sluice.series WHERE step = $1 AND at < $2'
/** Among the settings, so that an emptied store has none. */
const ROLLED = 'setting:series.rolled.'
const GET_ROLLED = 'SELECT value FROM sluice.store WHERE name = $1'
const SET_ROLLED =
  'INSERT INTO sluice.store (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value'
/** Processes write a step this long after its end at the latest; what comes later is not summed up. */
const GRACE_MS = 30_000
/** Coarse steps that one call makes. */
const STEPS_AT_ONCE = 60
/** Sums of all processes. */
const ALL_SOURCES = 0
const SHORT = 120

/** Stores the counts of one process. */
export function* writeSeries({ db }: Access, source: number, rows: readonly NewSeriesRow[]): Reading<void> {
  for (const { step, part, at, tallies } of rows)
    if (isStorable(part)) yield* run(db, INSERT, step, part, at, source, textOf(tallies))
}

/** The counts of a part, all processes together. */
export function* readSeries({ db }: Access, { step, part, fromMs, toMs }: SeriesQuery): Reading<SeriesRow[]> {
  if (!isStorable(part)) return []
  const rows = yield* all<[number, string]>(db, SELECT, step, part, Math.floor(fromMs), Math.ceil(toMs))
  const found: SeriesRow[] = []
  for (const [at, data] of rows) {
    const last = found.at(-1)
    if (last?.at === at) addTallies(last.tallies, talliesIn(data))
    else found.push({ at, tallies: talliesIn(data) })
  }
  return found
}

/** Sums finer steps up to coarser ones, and forgets what is too old. */
export function* rollSeries(access: Access, nowMs: number): Reading<void> {
  const { db } = access
  for (const [i, { step }] of SERIES_STEPS.entries()) {
    const finer = SERIES_STEPS[i - 1]
    if (!finer) continue
    const [rolled] = (yield* get<[string]>(db, GET_ROLLED, ROLLED + step)) ?? []
    const oldest = Math.ceil((nowMs - finer.keptMs) / step) * step
    const from = Math.max(Number(rolled ?? 0), oldest)
    const end = Math.floor((nowMs - GRACE_MS * (i === 1 ? 1 : 4)) / step) * step
    const to = Math.min(end, from + STEPS_AT_ONCE * step)
    if (to <= from) continue
    const sums = new Map<string, { part: string; at: number; tallies: Tallies }>()
    for (const [part, at, data] of yield* all<[string, number, string]>(db, FINER, finer.step, from, to)) {
      const begin = Math.floor(at / step) * step
      const id = `${begin} ${part}`
      const sum = sums.get(id) ?? { part, at: begin, tallies: {} }
      sums.set(id, sum)
      addTallies(sum.tallies, talliesIn(data))
    }
    yield* writeSeries(
      access,
      ALL_SOURCES,
      [...sums.values()].map((sum) => ({ ...sum, step })),
    )
    yield* run(db, SET_ROLLED, ROLLED + step, String(to))
  }
  for (const { step, keptMs } of SERIES_STEPS) yield* run(db, FORGET, step, Math.floor(nowMs - keptMs))
}

/** JSON, compressed if it is long: the fields of tallies repeat. */
function textOf(tallies: Tallies): string {
  const text = JSON.stringify(tallies)
  return text.length <= SHORT ? text : `z${deflateRawSync(text, { level: 6 }).toString('base64')}`
}

function talliesIn(data: string): Tallies {
  const text = data.startsWith('z') ? inflateRawSync(Buffer.from(data.slice(1), 'base64')).toString() : data
  return JSON.parse(text) as Tallies
}
