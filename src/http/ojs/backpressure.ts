import type { QueueDepth } from '../../store/contract/queues.ts'
import type { Call } from '../operation.ts'
import { Refusal } from '../refusal.ts'
import { splitName } from '../tenant.ts'
import { countsOf, depthOf } from './counts.ts'

/** The Retry-After of a full queue, in seconds. */
const RETRY_AFTER_S = 1

/** Makes the refusal of a queue that is full. */
export function queueFull(full: { readonly queue: string; readonly depth: number; readonly bound: number }): Refusal {
  const { depth, bound } = full
  const queue = splitName(full.queue).name
  return new Refusal(429, 'QUEUE_FULL', `The queue ${queue} holds ${depth} of at most ${bound} jobs.`, {
    retryable: true,
    details: { queue, depth, bound },
    headers: {
      'Retry-After': String(RETRY_AFTER_S),
      'X-OJS-Queue-Depth': String(depth),
      'X-OJS-Queue-Bound': String(bound),
    },
  })
}

/** The fill of the first bounded queue among those that jobs were stored in. */
export function pressureHeaders(depths: readonly QueueDepth[]): Record<string, string> {
  const [first] = depths
  if (!first) return {}
  const { depth, bounds } = first
  const pressure = depth / bounds.maxDepth
  return {
    'X-OJS-Queue-Depth': String(depth),
    'X-OJS-Queue-Bound': String(bounds.maxDepth),
    ...(bounds.warnAt !== null && pressure >= bounds.warnAt && { 'X-OJS-Queue-Pressure': pressure.toFixed(2) }),
  }
}

/**
 * Refuses jobs of a workflow that would begin in a full queue. Its later steps are accepted, since a running workflow
 * must be able to end. The count is outside the transaction that stores the jobs, so concurrent workflows can exceed a
 * bound together.
 *
 * @param queues of the jobs, as stored
 * @throws {Refusal} 429
 */
export async function requireRoom(
  { server }: Call<unknown, unknown, unknown>,
  queues: readonly string[],
): Promise<void> {
  const store = await server.remote.store()
  for (const { name, bounds } of await store.queues()) {
    const coming = queues.filter((queue) => queue === name).length
    if (!bounds || coming === 0) continue
    const depth = depthOf(countsOf(await store.queueCounts(name)))
    if (depth + coming > bounds.maxDepth) throw queueFull({ queue: name, depth, bound: bounds.maxDepth })
  }
}
