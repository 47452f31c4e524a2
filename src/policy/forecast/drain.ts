/** Start times of several backlogs that drain in parallel, each from a bucket of its own. */
import type { BucketState } from '../limits/bucket.ts'
import { type Backlog, ruleStartUs } from '../limits/start-time.ts'
import { freePermits, type LimitPolicy } from '../limits/limit.ts'

/** The jobs that wait for one bucket, or for several identical buckets. */
export interface Pile {
  readonly policy: LimitPolicy
  readonly state: BucketState
  /** The permits held now. */
  readonly active: number
  /** The waiting jobs. Jobs of different weights appear as one job of weight 1 per unit. */
  readonly backlog: Backlog
  /** All of them cost the same. */
  readonly even: boolean
  readonly jobs: number
  /** The number of identical buckets. */
  readonly times: number
}

/** Times from now, in µs; null: unknown until permits return. */
export interface Drain {
  readonly drainUs: number | null
  readonly p50Us: number | null
  readonly p99Us: number | null
}

/**
 * When the last job starts, and when half of all jobs and 99 of 100 have started. It uses closed forms and a bisection,
 * so the cost grows with the number of piles, not of jobs.
 *
 * @param runUs how long a job holds its permit, in µs; null: unknown, then permits are ignored.
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

/**
 * The first instant by which `percent` of 100 jobs have started. The bounds of each pile narrow with those of the
 * instant.
 */
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

/** The number of a pile's jobs that have started by an instant, known to be between two bounds. */
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
