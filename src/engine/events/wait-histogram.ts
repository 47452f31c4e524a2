import type { GrantedJob } from '../../jobs/job.ts'

/** The waits of one limit's jobs for its budget, in this process since its start. */
export interface WaitView {
  readonly limit: string
  /** Starts of jobs that need the limit. */
  readonly starts: number
  /** The starts that waited for a budget of this limit. */
  readonly waited: number
  readonly meanMs: number
  readonly maxMs: number
  /** Half of the starts waited at most this time: the bound of the first class that holds them, at most `maxMs`. */
  readonly p50Ms: number
  /** The same for 99 of 100 starts. */
  readonly p99Ms: number
  /** Starts by wait: above the bound of the class before, up to this one; the last bound is Infinity. */
  readonly classes: readonly { readonly upToMs: number; readonly starts: number }[]
}

/** Bounds of the classes, in ms: no wait, then three per decade from 1 ms to an hour. */
const BOUNDS_MS: readonly number[] = [
  0,
  1,
  2.5,
  5,
  10,
  25,
  50,
  100,
  250,
  500,
  1000,
  2500,
  5000,
  10_000,
  30_000,
  60_000,
  300_000,
  900_000,
  3_600_000,
  Infinity,
]
/** The most limits counted; further ones are ignored. */
const LIMITS_AT_MOST = 1000

interface Series {
  starts: number
  waited: number
  sumMs: number
  maxMs: number
  readonly classes: number[]
}

/**
 * Counts the waits for budget by limit, never by key, so that it stays small. A wait belongs to the last bucket that
 * the job waited for. For its other limits, and after a wait for a free slot only, the start counts as one without a
 * wait.
 */
export class WaitHistogram {
  readonly #series = new Map<string, Series>()

  /** Counts one start. */
  add(job: Pick<GrantedJob, 'uses' | 'waitedFor' | 'startedUs' | 'availableUs'>): void {
    if (job.uses.length === 0) return
    const waitedMs = budgetWaitMs(job)
    for (const limit of limitsOf(job)) {
      const series = this.#of(limit)
      if (!series) continue
      const ms = job.waitedFor?.limit === limit ? waitedMs : 0
      series.starts++
      if (ms > 0) series.waited++
      series.sumMs += ms
      series.maxMs = Math.max(series.maxMs, ms)
      const at = BOUNDS_MS.findIndex((bound) => ms <= bound)
      series.classes[at] = (series.classes[at] ?? 0) + 1
    }
  }

  /** The counts, by limit name. */
  view(): WaitView[] {
    return [...this.#series]
      .map(([limit, { starts, waited, sumMs, maxMs, classes }]) => ({
        limit,
        starts,
        waited,
        meanMs: sumMs / starts,
        maxMs,
        p50Ms: Math.min(percentile(classes, starts, 0.5), maxMs),
        p99Ms: Math.min(percentile(classes, starts, 0.99), maxMs),
        classes: BOUNDS_MS.map((upToMs, i) => ({ upToMs, starts: classes[i] ?? 0 })),
      }))
      .sort((a, b) => (a.limit < b.limit ? -1 : 1))
  }

  #of(limit: string): Series | null {
    const known = this.#series.get(limit)
    if (known) return known
    if (this.#series.size >= LIMITS_AT_MOST) return null
    const series = { starts: 0, waited: 0, sumMs: 0, maxMs: 0, classes: BOUNDS_MS.map(() => 0) }
    this.#series.set(limit, series)
    return series
  }
}

/** The wait of a job for budget before this start, in ms; 0 if it was in no wait list. */
function budgetWaitMs(job: Pick<GrantedJob, 'waitedFor' | 'startedUs' | 'availableUs'>): number {
  return job.waitedFor === null ? 0 : Math.max(0, job.startedUs - job.availableUs) / 1000
}

/** The limits that charged a job, each once, since it may use several keys of one. */
export function limitsOf({ uses }: Pick<GrantedJob, 'uses'>): string[] {
  return [...new Set(uses.map((use) => use.limit))]
}

function percentile(classes: readonly number[], starts: number, share: number): number {
  let left = Math.ceil(starts * share)
  const at = classes.findIndex((count) => (left -= count) <= 0)
  return BOUNDS_MS[at] ?? Infinity
}
