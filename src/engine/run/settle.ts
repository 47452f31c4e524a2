import { SluiceError } from '../../base/errors.ts'
import type { Clock } from '../../base/clock.ts'
import { toJsonText } from '../../base/json-value.ts'
import { persist } from '../../base/persist.ts'
import type { Random } from '../../base/random.ts'
import { beginningOf } from '../../base/text.ts'
import { asError, codeOf } from '../../base/thrown.ts'
import type { Trouble } from '../../base/trouble.ts'
import type { GrantedJob } from '../../jobs/job.ts'
import type { FailedStep, JobError } from '../../jobs/job-error.ts'
import { failureDetails } from '../../jobs/stored-error.ts'
import type { Settlement, SettleResult } from '../../jobs/settlement.ts'
import { NonRetryable } from '../../jobs/handler-errors.ts'
import { extraOf } from '../../jobs/job-extra.ts'
import { isRateLimited } from '../../jobs/is-rate-limited.ts'
import { keyOfRefusal, penaltyUs, type RateLimited } from '../../jobs/rate-limited.ts'
import { retryDelayUs } from '../../jobs/retry-policy.ts'
import { paceOf } from '../../policy/limits/pace.ts'
import type { Store } from '../../store/contract/store.ts'
import type { RunEnd } from '../events/instrumentation.ts'
import type { LimitRegistry } from '../define/limit-registry.ts'
import { retryOf, type TermsOfQueues } from '../define/job-terms.ts'
import { snoozedUs } from '../define/snooze.ts'
import type { TaskDefinition } from '../define/task.ts'
import type { Keeping } from './keeping.ts'
import type { HeldRuns } from './held-runs.ts'

/** The inputs of an outcome beside the run. */
export interface OutcomeContext {
  readonly clock: Clock
  readonly random: Random
  /** The longest time for which a push-back may close a bucket, µs. */
  readonly maxPenaltyUs: number
  readonly limits: LimitRegistry
  readonly queueTerms: TermsOfQueues
}

/** The settlement of a run, and the error behind it for callbacks and events. */
export interface Outcome {
  readonly settlement: Settlement
  readonly error: Error | null
  /** The step of a flow that failed, for events and the log; absent: none did. */
  readonly step?: FailedStep
}

/** A bucket to close, and for how long. */
export interface PushBack {
  readonly limit: string | null
  readonly key: string
  readonly closedForUs: number
  /** The job does not use that bucket, so the job itself is rescheduled by the same time. */
  readonly apart?: true
}

const MAX_PUSH_BACKS = 100
const LONGEST_MESSAGE = 8000
/**
 * A run that ended is settled while its lease holds, and for at least this time: if no other worker took the job, it
 * still counts.
 */
const SETTLES_FOR_MS = 120_000
const A_SETTLEMENT = 'the settlement of a run'

/**
 * The outcome of a run: complete, snooze, retry, push-back, discard, cancel or give-back. It never throws, even if the
 * handler's values do.
 */
export function outcomeOf(context: OutcomeContext, job: GrantedJob, task: TaskDefinition, end: RunEnd): Outcome {
  const { seq, attempt } = job
  if (end.kind === 'ended')
    return { settlement: { seq, attempt, kind: end.by === 'cancel' ? 'cancel' : 'give-back' }, error: null }
  try {
    if (end.kind === 'threw') {
      const outcome = outcomeOfError(context, job, task, end.error)
      // An aborted run ends for that reason, even if it throws. A push-back gives it back as well, after its delay.
      if (end.after === null || outcome.settlement.kind === 'push-back') return outcome
      return outcomeOf(context, job, task, { kind: 'ended', by: end.after })
    }
    const delayUs = snoozedUs(end.value)
    if (delayUs !== null) return { settlement: { seq, attempt, kind: 'snooze', delayUs }, error: null }
    const result = end.value === undefined ? null : toJsonText(end.value, `the result of task ${task.name}`)
    return { settlement: { seq, attempt, kind: 'complete', result }, error: null }
  } catch (error) {
    return failed(context, job, task, asError(error))
  }
}

/** The slots of a worker's queues, which runs take and leave. */
export interface Slots {
  /**
   * A run of this queue has ended. Its slot is free.
   * @param mayStartOthers false: its end lets no waiting job start
   */
  finished(queue: string, mayStartOthers?: boolean): void
  /** A run of this queue could not be settled yet. It takes its slot again. */
  hold(queue: string): void
  /** The end of a run of this queue was written or abandoned. */
  written(queue: string): void
  /** Takes out the held starts of a bucket that is about to close. The answer gives them back. */
  recall(limit: string, key: string): () => void
}

/**
 * Whether the end of a run may let a waiting job start that needs more than a free slot: the job itself, one that needs
 * its permits, the next of its flow or of its schedule.
 */
export function mayStartOthers({ holds, flow, occurrence }: GrantedJob, { settlement }: Outcome): boolean {
  const { kind } = settlement
  const ends = kind === 'complete' || kind === 'discard' || kind === 'cancel'
  return !ends || holds === true || flow !== undefined || occurrence !== undefined
}

/** The parts that settle the runs of one worker. */
export interface SettleContext {
  readonly store: Store
  readonly clock: Clock
  readonly trouble: Trouble
  readonly worker: number
  readonly leaseUs: number
  readonly held: HeldRuns
  readonly slots: Slots
  readonly keeping: Keeping
}

/**
 * Writes the outcome of a run, with retries while the store is in trouble. The lease guards it, so it counts once or
 * not at all. Returns null if it was abandoned.
 */
export function settle(context: SettleContext, job: GrantedJob, { settlement }: Outcome): Promise<SettleResult | null> {
  const { keeping, store, trouble, worker } = context
  const moves = job.flow?.workflow?.moves
  const run = {
    ...settlement,
    startedUs: job.startedUs,
    ...(job.flow && { inFlow: true as const }),
    ...(moves !== undefined && { moves }),
    ...keeping.of(job, settlement),
  }
  return store.settle(worker, run).then(
    (settled) => {
      trouble.over(A_SETTLEMENT)
      return settled
    },
    (error: unknown) => settleAgain(context, job, run, error),
  )
}

/** Tries again after a first failure. */
async function settleAgain(
  context: SettleContext,
  job: GrantedJob,
  run: Settlement,
  failure: unknown,
): Promise<SettleResult | null> {
  const { clock, held, leaseUs, slots, store, trouble, worker } = context
  try {
    const settled = await persist(
      clock,
      Math.max(leaseUs / 1000, SETTLES_FOR_MS),
      (again) => (again ? store.settle(worker, run, true) : Promise.reject(asError(failure))),
      (error) => {
        // Its slot is taken until the run is settled.
        if (!held.unsettled.has(job)) slots.hold(job.queue)
        held.unsettled.add(job)
        trouble.failed(A_SETTLEMENT, error)
      },
    )
    trouble.over(A_SETTLEMENT)
    return settled
  } catch (error) {
    held.giveUp(job)
    const about = { job: job.id, task: job.task }
    trouble.report('error', error, about, 'a run could not be settled; its lease will end, and the job runs again')
    return null
  } finally {
    if (held.unsettled.delete(job)) slots.finished(job.queue)
  }
}

/**
 * The bucket that a refusal closes, and for how long: that of the named limit, otherwise of the first limit that the
 * task lists. A limit unknown to this engine has no bucket to close. If the job does not use the bucket, only
 * rescheduling it keeps it from an early return.
 */
export function pushBackOf(
  context: OutcomeContext,
  job: GrantedJob,
  task: TaskDefinition,
  refusal: RateLimited,
): PushBack {
  const listed = task.uses
    .map((use) => job.uses.find((each) => each.limit === use.limit))
    .find((use) => use !== undefined)
  const own =
    refusal.limitName === null ? (listed ?? job.uses[0]) : job.uses.find((use) => use.limit === refusal.limitName)
  const called = refusal.limitName ?? own?.limit ?? null
  const limit = called === null || own || context.limits.policy(called) ? called : null
  const key = keyOfRefusal(refusal, `a RateLimited of ${task.name}`) ?? own?.key ?? ''
  const { intervalUs, periodUs } = paceOf(limit === null ? null : context.limits.policy(limit))
  return {
    limit,
    key,
    ...(limit !== null && !job.uses.some((use) => use.limit === limit && use.key === key) && { apart: true as const }),
    closedForUs: penaltyUs(refusal, {
      nowMs: context.clock.now(),
      intervalUs,
      periodUs,
      maxPenaltyUs: context.maxPenaltyUs,
    }),
  }
}

/** An error as stored with the job: a code of at most 255 characters, a message of at most 8,000. */
export function storedError(error: Error): JobError {
  const { name, message } = error
  return {
    code: codeOf(error) ?? 'handler.failed',
    message: beginningOf(
      `${beginningOf(name, LONGEST_MESSAGE)}: ${beginningOf(message, LONGEST_MESSAGE)}`,
      LONGEST_MESSAGE,
    ),
  }
}

/** The same with the stack and the causes, for a person who looks at the job. */
function storedFailure(error: Error): JobError {
  return { ...storedError(error), details: failureDetails(error) }
}

/** The outcome of a run that failed: a retry, a push-back or a discard. */
export function outcomeOfError(context: OutcomeContext, job: GrantedJob, task: TaskDefinition, error: Error): Outcome {
  const { seq, attempt } = job
  if (isRateLimited(error) && job.pushedBack + 1 < MAX_PUSH_BACKS)
    return {
      settlement: {
        seq,
        attempt,
        kind: 'push-back',
        error: storedError(error),
        ...pushBackOf(context, job, task, error),
      },
      error,
    }
  // Another attempt would fail in the same way.
  if (error instanceof NonRetryable || (error instanceof SluiceError && error.code === 'job.unreadable'))
    return discarded(job, error)
  // After this number of refusals it is a failed attempt, still with the API's retry time.
  const notBeforeUs = isRateLimited(error) ? pushBackOf(context, job, task, error).closedForUs : 0
  return failed(context, job, task, error, notBeforeUs)
}

/** The outcome of a run whose job has no other attempt. */
export function discarded({ seq, attempt }: GrantedJob, error: Error): Outcome {
  return { settlement: { seq, attempt, kind: 'discard', error: storedFailure(error) }, error }
}

function failed(
  context: OutcomeContext,
  job: GrantedJob,
  task: Pick<TaskDefinition, 'retry' | 'retryIsDefault'>,
  error: Error,
  notBeforeUs = 0,
): Outcome {
  const { seq, attempt } = job
  if (attempt >= job.maxAttempts) return discarded(job, error)
  const retry = extraOf(job).retry ?? retryOf(task, job.queue, context.queueTerms)
  return {
    settlement: {
      seq,
      attempt,
      kind: 'retry',
      delayUs: Math.max(retryDelayUs({ ...retry, attempts: 1 }, attempt, context.random), notBeforeUs),
      error: storedFailure(error),
    },
    error,
  }
}
