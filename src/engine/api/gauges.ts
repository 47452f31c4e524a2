/** Figures of the whole store for monitors: the same in every process, with labels that are bounded. */
import { type Counted, OTHER, SERIES_AT_MOST } from '../events/counted.ts'
import type { QueueCount } from '../../store/contract/queues.ts'
import type { WorkerRecord } from '../../store/contract/workers.ts'
import type { LimitFigures } from './limit-figures.ts'

/** Jobs by queue and state. */
export function jobGauges(counts: readonly QueueCount[]): Counted<number>[] {
  return summed(counts.map(({ queue, state, jobs }) => ({ labels: [queue, state], value: jobs })))
}

/** Live workers by the queue that they serve. */
export function workerGauges(workers: readonly WorkerRecord[]): Counted<number>[] {
  return summed(
    workers.flatMap(({ alive, queues }) => queues.map((queue) => ({ labels: [queue], value: alive ? 1 : 0 }))),
  )
}

/** Jobs that wait for a budget of each limit. */
export function waitingGauges(limits: readonly LimitFigures[]): Counted<number>[] {
  return summed(limits.map(({ limit, totals }) => ({ labels: [limit.name], value: totals?.waiting ?? 0 })))
}

/**
 * The used share of the budget of each limit, 0 to 1: of its one bucket, or of the key with the longest wait list. A
 * limit with keys for which no job waits has none.
 */
export function usedGauges(limits: readonly LimitFigures[]): Counted<number>[] {
  return limits.slice(0, SERIES_AT_MOST).flatMap(({ limit, bucket, longest }) => {
    const shown = bucket ?? longest
    if (!shown || shown.capacity === null || shown.available === null || !(shown.capacity > 0)) return []
    return [{ labels: [limit.name], value: Math.min(1, Math.max(0, 1 - shown.available / shown.capacity)) }]
  })
}

/** Adds up the series of the same labels. Those beyond the bound share the name `other` in place of their first label. */
function summed(series: readonly Counted<number>[]): Counted<number>[] {
  const firsts = new Set<string>()
  const sums = new Map<string, Counted<number>>()
  for (const { labels, value } of series) {
    const [first = '', ...rest] = labels
    if (firsts.size < SERIES_AT_MOST) firsts.add(first)
    const kept = [firsts.has(first) ? first : OTHER, ...rest]
    const name = kept.join('\0')
    sums.set(name, { labels: kept, value: (sums.get(name)?.value ?? 0) + value })
  }
  return [...sums.values()]
}
