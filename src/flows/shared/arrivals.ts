import { checkPriority } from '../../base/priority.ts'
import type { FlowEngine } from '../../engine/define/flow-entry.ts'
import { checkQueue } from '../../engine/define/call-options.ts'
import type { RetryPolicy } from '../../jobs/retry-policy.ts'
import type { Arrival } from '../../jobs/workflow.ts'
import type { UseSpec } from '../../policy/limits/define.ts'
import { readPath } from '../../policy/limits/partition-key.ts'

/**
 * Attempts of a plain entry. A crash of the process uses one up, and a body that waits for nothing may live through
 * many.
 */
export const ENTRY_ATTEMPTS = 100

/** Where a step waits and runs, with the limits that must admit it. */
export interface StepTerms {
  readonly uses: Arrival['uses']
  readonly queue: string
  readonly priority: number
  readonly retry: RetryPolicy
}

/** Where the entries of a flow without a step wait. */
export interface Home {
  readonly queue: string
  readonly priority: number
}

/**
 * The buckets that a step needs, those of its queue's jobs included. A limit is defined by its first use.
 * @throws {SluiceError} the codes of a limit: `limit.key.missing`, `limit.weight.above_burst`, …
 */
export async function resolveUses(
  engine: FlowEngine,
  specs: readonly UseSpec<never>[],
  input: unknown,
  { queue, priority }: Home,
  what: string,
): Promise<Arrival['uses']> {
  const own = [...specs, ...engine.queueLimits.ofJobs(queue)]
  if (own.length === 0) return []
  const uses = engine.limits.resolve(own, input, { weight: undefined, priority }, what)
  await engine.storeLimits()
  return uses
}

/** Limits whose keys and weights are computed from this value, not from the job's input. */
export function boundTo(specs: readonly UseSpec<never>[], value: unknown): readonly UseSpec<never>[] {
  return specs.map((spec) => {
    const { key, weight } = spec
    const own = key.kind === 'fn' ? (): ReturnType<typeof key.fn> => key.fn(value as never) : null
    const at = key.kind === 'path' ? (): never => readPath(value, key.path) as never : null
    const found = own ?? at
    return {
      ...spec,
      key: found ? { kind: 'fn' as const, fn: found } : key,
      weight: typeof weight === 'function' ? (): number => weight(value as never) : weight,
    }
  })
}

/** The arrival of a step. @param attempt its attempts so far @param delayUs null: at once */
export function arrivalOf(step: string, terms: StepTerms, attempt: number, delayUs: number | null): Arrival {
  const { uses, queue, priority, retry } = terms
  return {
    step,
    uses,
    fairKey: null,
    share: 1,
    queue,
    priority,
    maxAttempts: retry.attempts,
    attempt,
    delayUs,
    runAtMs: null,
  }
}

/** The arrival of an entry without a step, which needs no budget. */
export function plainArrival({ queue, priority }: Home): Arrival {
  return {
    step: null,
    uses: [],
    fairKey: null,
    share: 1,
    queue,
    priority,
    maxAttempts: ENTRY_ATTEMPTS,
    attempt: 0,
    delayUs: null,
    runAtMs: null,
  }
}

/** Checks where a step waits; what it leaves out is that of its flow. @throws {SluiceError} `queue.invalid` */
export function checkPlace(
  given: { readonly queue?: string | undefined; readonly priority?: number | undefined },
  home: Home,
  what: string,
): Home {
  return {
    queue: given.queue === undefined ? home.queue : checkQueue(given.queue),
    priority: given.priority === undefined ? home.priority : checkPriority(given.priority, what),
  }
}
