import type { Clock } from '../base/clock.ts'
import { SluiceError } from '../base/errors.ts'
import type { Logger } from '../base/logger.ts'
import type { HeadersLike } from '../jobs/header-source.ts'
import { readRateLimitHeaders } from '../jobs/rate-limit-headers.ts'
import type { BucketUse, Store } from '../store/contract/store.ts'
import type { JobDetails } from '../store/contract/remote-jobs.ts'
import type { Events } from '../engine/events/events.ts'
import { checkCharge } from '../policy/limits/limit.ts'
import { checkShared, paceOf } from '../policy/limits/pace.ts'

/** A remote worker's feedback on the budgets of a run, sent with its end. */
export interface RemoteFeedback {
  /** The real cost of the call beyond its weight; negative: less. Limits have their stored names. */
  readonly charges: readonly {
    readonly limit: string
    readonly units: number
    /** Whether several tenants share the budget of a key, the sender among them: a start keeps a unit of it at least. */
    readonly isOfAll: (key: string) => boolean
  }[]
  /** Headers of the API's answer. */
  readonly headers: HeadersLike | null
}

/** The engine's parts that feedback of remote workers uses. */
export interface RemoteFeedbackHooks {
  readonly clock: Clock
  readonly logger: Logger
  readonly events: Events
  readonly maxPenaltyUs: number
}

/**
 * Checks a worker's feedback. Returns a function that applies it after the settlement, and never fails.
 * @throws {SluiceError} `option.invalid` for a limit that the job does not use, or one that counts no units
 */
export async function readFeedback(
  hooks: RemoteFeedbackHooks,
  store: Store,
  job: JobDetails,
  { charges, headers }: RemoteFeedback,
): Promise<() => Promise<void>> {
  const uses = (await store.explain(job.id))?.uses ?? []
  const policies = new Map((await store.limits()).map(({ name, policy }) => [name, policy]))
  const corrections = correctionsOf(charges, uses)
  for (const { use, units, shared } of corrections) {
    const policy = policies.get(use.limit)
    if (policy) checkCharge(use.limit, policy)
    if (policy && shared) checkShared(use.limit, policy, units)
  }
  const worker = job.worker ?? undefined
  const apply = async (): Promise<void> => {
    for (const { use, units } of corrections)
      await store.charge(use.limit, use.key, units, job.startedUs ?? job.createdUs, worker)
    if (headers === null) return
    const nowMs = hooks.clock.now()
    for (const { limit, key } of uses) {
      const policy = policies.get(limit)
      if (!policy?.calibrate) continue
      const { remaining, resetAtMs } = readRateLimitHeaders(headers, nowMs, policy.calibrate.budget)
      if (remaining === undefined) continue
      const afterUs = resetAtMs === undefined ? paceOf(policy).periodUs : Math.ceil((resetAtMs - nowMs) * 1000)
      const resetInUs = Math.min(afterUs, hooks.maxPenaltyUs)
      const { direction, reset } = policy.calibrate
      const report = { remaining, resetUs: store.nowUs() + resetInUs, direction, reset }
      if (!(await store.calibrate(limit, key, report, worker))) continue
      const until = new Date(nowMs + resetInUs / 1000)
      hooks.events.emit('rate_limit.dynamic_adjusted', { limit, key, until, remaining })
    }
  }
  return () =>
    apply().catch((error: unknown) =>
      hooks.logger.error({ err: error, job: job.id }, 'the feedback of a worker on its budgets could not be stored'),
    )
}

/** Corrections by bucket, with those of one limit added up. A bucket never gets back more than was taken. */
function correctionsOf(
  charges: RemoteFeedback['charges'],
  uses: readonly BucketUse[],
): { readonly use: BucketUse; readonly units: number; readonly shared: boolean }[] {
  const sums = new Map<string, Omit<RemoteFeedback['charges'][number], 'limit'>>()
  for (const { limit, units, isOfAll } of charges)
    sums.set(limit, { units: (sums.get(limit)?.units ?? 0) + units, isOfAll })
  return [...sums].flatMap(([limit, { units, isOfAll }]) => {
    const use = uses.find((each) => each.limit === limit)
    if (!use)
      throw new SluiceError(
        'option.invalid',
        `charge is invalid: the job does not use the limit ${limit}. Expected ${uses.map((each) => each.limit).join(', ') || 'none'}.`,
      )
    const shared = isOfAll(use.key)
    const bounded = Math.max(units, shared ? Math.min(0, 1 - use.weight) : -use.weight)
    return bounded === 0 ? [] : [{ use, units: bounded, shared }]
  })
}
