/** Answers of an API correct its budgets: a refusal closes one, and headers say what is left. */
import { mayPass, SluiceError } from '../../base/errors.ts'
import { show } from '../../base/options.ts'
import type { Answer } from '../../jobs/header-source.ts'
import { isRefusal, type RateLimitDetails, readRateLimitHeaders } from '../../jobs/rate-limit-headers.ts'
import { keyOfRefusal, penaltyUs, RateLimited } from '../../jobs/rate-limited.ts'
import { isLimitUse, useOf } from '../../policy/limits/define.ts'
import { paceOf } from '../../policy/limits/pace.ts'
import type { BucketName, BucketUse } from '../contract/limiter.ts'
import type { Feedback, Running } from './feedback.ts'
import type { Use } from './uses.ts'

/** The longest time for which an answer may close or bound a bucket. */
const LONGEST_US = 3_600_000_000

/**
 * Closes the bucket that a refusal means: the one that it names, or else the first that the caller listed. While the
 * backend cannot be reached it does nothing: the refusal, or the answer, is what the caller has to get.
 */
export async function closeAfter(
  feedback: Feedback,
  { uses }: Running,
  listed: readonly Use[],
  refusal: RateLimited,
): Promise<void> {
  const { clock, limits } = feedback.options
  const { limitName } = refusal
  const named = limitName === null ? firstOf(feedback, uses, listed) : uses.find(({ limit }) => limit === limitName)
  const limit = named?.limit ?? limitName
  const policy = limit === null ? null : limits.policy(limit)
  if (limit === null || !policy) return
  const { intervalUs, periodUs } = paceOf(policy)
  const forUs = penaltyUs(refusal, { nowMs: clock.now(), intervalUs, periodUs })
  const key = keyOfRefusal(refusal, 'a RateLimited') ?? named?.key ?? ''
  await ifReached(() => feedback.penalize({ limit, key }, forUs))
}

/**
 * Reads an answer: a refusal closes a bucket, and headers correct those of limits with `calibrate`.
 * @throws {SluiceError} `option.invalid`
 */
export async function learnFrom(
  feedback: Feedback,
  run: Running,
  listed: readonly Use[],
  answer: Answer,
  nowMs: number,
): Promise<void> {
  if (typeof answer !== 'object' || answer === null)
    throw new SluiceError('option.invalid', `The answer to observe is invalid: ${show(answer)}. Expected a response.`)
  const { limits, call, adjusted } = feedback.options
  const isRefused = isRefusal(answer)
  if (isRefused) await closeAfter(feedback, run, listed, RateLimited.from(answer, { now: nowMs }))
  for (const use of run.uses) {
    const policy = limits.policy(use.limit)
    if (!policy?.calibrate) continue
    const { direction, reset, budget } = policy.calibrate
    const details = readRateLimitHeaders(answer.headers, nowMs, budget)
    const { remaining } = details
    if (remaining === undefined || (isRefused && remaining === 0)) continue
    const resetInUs = resetOf(details, nowMs) ?? paceOf(policy).periodUs
    const left = Math.max(0, remaining - unseen(feedback.running, run, use))
    const report = { remaining: left, resetInUs: Math.min(resetInUs, LONGEST_US), direction, reset }
    const isNews = await ifReached(() => call((backend) => backend.calibrate(use, report)))
    if (isNews) adjusted(use, report.resetInUs, left)
  }
}

/** Buckets are sorted by name: the first of them may be any. */
function firstOf({ options }: Feedback, uses: readonly BucketUse[], listed: readonly Use[]): BucketName | undefined {
  const [first] = Array.isArray(listed) ? (listed as readonly unknown[]) : []
  if (!isLimitUse(first)) return uses[0]
  const same = uses.filter(({ limit }) => limit === useOf(first).limit)
  return same.length > 1 ? options.limits.one(first, 'limiter.run') : (same[0] ?? uses[0])
}

/** Units of later starts: the API may not have counted them when it answered. */
function unseen(running: Iterable<Running>, run: Running, { limit, key }: BucketName): number {
  let units = 0
  for (const other of running) {
    if (other.seq <= run.seq) continue
    for (const use of other.uses) if (use.limit === limit && use.key === key) units += use.weight
  }
  return units
}

/** The answer of a call; undefined if the backend cannot be reached, which its own event tells. */
async function ifReached<T>(call: () => Promise<T>): Promise<T | undefined> {
  try {
    return await call()
  } catch (error) {
    if (!mayPass(error)) throw error
    return undefined
  }
}

function resetOf({ reset }: RateLimitDetails, nowMs: number): number | null {
  if (reset === undefined || reset.kind === 'absent') return null
  return reset.kind === 'delay' ? reset.us : Math.ceil((reset.epochMs - nowMs) * 1000)
}
