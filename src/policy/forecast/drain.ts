/** When the jobs of several backlogs start that drain side by side, each before a bucket of its own. */
import type { BucketState } from '../limits/bucket.ts'
import { freePermits } from '../rules/concurrency.ts'
import { type Backlog, ruleStartUs } from '../limits/start-time.ts'
import type { LimitPolicy } from '../limits/limit.ts'

/** What waits for one bucket, or for several buckets that are all alike. */
export interface Pile {
  readonly policy: LimitPolicy
  readonly state: BucketState
  /** Permits held now. */
  readonly active: number
  /** The jobs; where their weights differ, their units as jobs of weight 1. */
  readonly backlog: Backlog
  /** All of them cost the same. */
  readonly even: boolean
  readonly jobs: number
  /** How many buckets are alike. */
  readonly times: number
}

/** From now on, in µs; null: that depends on when permits return. */
export interface Drain {
  readonly drainUs: number | null
  readonly p50Us: number | null
  readonly p99Us: number | null
}

/**
 * When the last job starts, and within which time half of all jobs and 99 of 100 do. Closed forms and a bisection: the cost grows
 * with the number of piles, not with that of the jobs.
 *
 * @param runUs how long a job holds its permit; null: not known, then permits are left out.
 */
export function drain(all: readonly Pile[], nowUs: number, runUs: number | null): Drain {
  const piles = all.filter(({ backlog }) => backlog.count > 0)
  if (piles.some(({ policy }) => policy.rule === null && policy.concurrency !== null && runUs === null))
    return { drainUs: null, p50Us: null, p99Us: null }
  // Nothing ever starts under a limit that is paused.
  if (piles.some(({ policy }) => policy.concurrency === 0)) return { drainUs: null, p50Us: null, p99Us: null }
  const last = piles.reduce((latest, pile) => Math.max(latest, startUs(pile, pile.backlog.count, nowUs, runUs)), nowUs)
  const within = (percent: number): number => quantileUs(piles, percent, last, nowUs, runUs) - nowUs
  return { drainUs: last - nowUs, p50Us: within(50), p99Us: within(99) }
}

/** When the n-th job of a pile starts. */
function startUs({ policy, state, active, backlog }: Pile, n: number, nowUs: number, runUs: number | null): number {
  const ruleUs = ruleStartUs(policy, state, nowUs, { count: n, weight: backlog.weight })
  if (policy.concurrency === null || runUs === null) return ruleUs
  const turns = Math.ceil(Math.max(0, n - freePermits(policy.concurrency, active)) / policy.concurrency)
  return Math.max(ruleUs, nowUs + turns * runUs)
}

/** The first instant by which so many of 100 jobs have started: the bounds of each pile close in with those of the instant. */
function quantileUs(
  piles: readonly Pile[],
  percent: number,
  lastUs: number,
  nowUs: number,
  runUs: number | null,
): number {
  const all = piles.reduce((sum, { backlog, times }) => sum + backlog.count * times, 0)
  const wanted = Math.ceil((all * percent) / 100)
  let before = nowUs - 1
  let by = lastUs
  let least = piles.map(() => 0)
  let most = piles.map(({ backlog }) => backlog.count)
  while (by - before > 1) {
    const middle = before + Math.floor((by - before) / 2)
    const started = piles.map((pile, i) => startedBy(pile, middle, least[i] ?? 0, most[i] ?? 0, nowUs, runUs))
    if (started.reduce((sum, count, i) => sum + count * (piles[i]?.times ?? 0), 0) >= wanted) {
      by = middle
      most = started
    } else {
      before = middle
      least = started
    }
  }
  return by
}

/** How many of a pile's jobs have started by an instant, known to be between two numbers. */
function startedBy(pile: Pile, atUs: number, least: number, most: number, nowUs: number, runUs: number | null): number {
  let low = least
  let high = most
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    if (startUs(pile, middle, nowUs, runUs) <= atUs) low = middle
    else high = middle - 1
  }
  return low
}
