import type { Tallies } from '../../jobs/tally.ts'

/** Counts over time, which processes add to and monitors read. They are kept 2 h, 48 h and 30 d, the older the coarser. */
export interface SeriesRecords {
  /** Stores the counts of one process. A row that is there already stays, so that a repeated call adds nothing. */
  writeSeries(source: number, rows: readonly NewSeriesRow[]): Promise<void>
  /** The counts of a part in steps of one length, oldest first, all processes together. */
  readSeries(query: SeriesQuery): Promise<readonly SeriesRow[]>
  /** Sums finer steps up to coarser ones, and forgets what is too old. @param nowMs wall clock */
  rollSeries(nowMs: number): Promise<void>
}

/** Counts of one step of one process. */
export interface NewSeriesRow {
  /** The length of the step, in ms: 10,000, 60,000 or 900,000. */
  readonly step: number
  /** `all`, `claims`, `queues`, `tasks`, `limits`, or `keys:` with a limit. */
  readonly part: string
  /** The begin of the step, wall clock, epoch ms. */
  readonly at: number
  /** By name; that of `all` and of `claims` is `all`. */
  readonly tallies: Tallies
}

/** Counts of one step. */
export type SeriesRow = Pick<NewSeriesRow, 'at' | 'tallies'>

/** A filter of counts. */
export interface SeriesQuery {
  readonly step: number
  readonly part: string
  /** Included, epoch ms. */
  readonly fromMs: number
  /** Excluded. */
  readonly toMs: number
}

/** The steps with the time that each is kept, in ms. Every step is a multiple of the one before. */
export const SERIES_STEPS: readonly { readonly step: number; readonly keptMs: number }[] = [
  { step: 10_000, keptMs: 2 * 3_600_000 },
  { step: 60_000, keptMs: 48 * 3_600_000 },
  { step: 900_000, keptMs: 30 * 86_400_000 },
]
