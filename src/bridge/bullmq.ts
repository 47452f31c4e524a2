import { createHash } from 'node:crypto'
import { type Clock, systemClock } from '../base/clock.ts'
import { type Duration, durationUs } from '../base/duration.ts'
import { mayPass, SluiceError } from '../base/errors.ts'
import { checkMethods, checkOptions, show } from '../base/options.ts'
import { isName } from '../base/text.ts'
import { RateLimitRejected } from '../jobs/handler-errors.ts'
import { isRateLimited } from '../jobs/is-rate-limited.ts'
import { penaltyUs, RateLimited } from '../jobs/rate-limited.ts'
import type { Confirmed, RunContext } from '../limiter/client/calls.ts'
import type { Limiter } from '../limiter/client/limiter.ts'
import type { Permit } from '../limiter/client/permit.ts'
import type { Use } from '../limiter/client/uses.ts'

/** A job of BullMQ, as far as budgets concern it. */
export interface BudgetedJob {
  readonly id?: string | undefined
  readonly queueName: string
  /** How often it was fetched. BullMQ counts this from version 5. */
  readonly attemptsStarted?: number
  /** 0: before all jobs with a priority. */
  readonly priority?: number
  moveToDelayed(timestamp: number, token?: string): Promise<void>
  changePriority?(options: { priority: number }): Promise<void>
}

/** The options of `withBudgets`. */
export interface BudgetOptions<J> {
  /** The buckets that a job takes from, each time it starts; an empty list: it is not limited. */
  readonly uses: (job: J) => readonly Use[]
  /** −100 to 100 for the headroom of limits; default 0. Jobs that are booked start in the order of their bookings. */
  readonly priority?: (job: J) => number
  /** How far ahead a start is booked; default 1 hour. A job whose start is later is fetched again then. */
  readonly atMost?: Duration
  /** Default: the clocks of this machine. */
  readonly clock?: Clock
}

/** A processor of BullMQ. `ctx` is there for processors that report costs and answers; BullMQ ignores it. */
export type BudgetedProcessor<J, R> = (
  job: J,
  token: string | undefined,
  signal: AbortSignal | undefined,
  ctx: RunContext | null,
) => Promise<R>

const AT_MOST = '1h'
/** A start that is so near is waited for: to move the job would take about as long. */
const NEAR_MS = 20
/**
 * A job that is back for its start waits so long for it: a start before it that began late has moved it, and a third
 * fetch would make it late itself.
 */
const MOVED_MS = 200
/** A job whose budget cannot be asked, or lacks a permit, is fetched again after this time. */
const AGAIN_MS = 1000

/** BullMQ knows it by its name: the job was moved, and this run does not count as a failed attempt. */
class DelayedError extends Error {
  constructor() {
    super('bullmq:movedToDelayed')
    this.name = 'DelayedError'
  }
}

/**
 * Makes a processor of BullMQ that starts jobs within budgets. A job whose budgets are closed is booked, and delayed
 * until exactly its start: it is fetched twice, its attempts do not count, and no worker waits for it. A `RateLimited`
 * that the processor throws, and BullMQ's own `RateLimitError`, close the bucket; the job is delayed and comes back.
 *
 * @param limiter one whose backend all workers share, such as `redis://…`
 * @throws {SluiceError} `option.invalid`, `duration.invalid`
 */
export function withBudgets<J extends BudgetedJob, R>(
  limiter: Limiter,
  options: BudgetOptions<J>,
  processor: BudgetedProcessor<J, R>,
): (job: J, token?: string, signal?: AbortSignal) => Promise<R> {
  checkOptions(options, ['uses', 'priority', 'atMost', 'clock'], 'withBudgets')
  checkMethods(limiter, ['acquire', 'reserve', 'confirm', 'cancel', 'run', 'on'], 'The limiter of withBudgets')
  const { uses, priority = () => 0, atMost = AT_MOST, clock = systemClock } = options
  for (const [name, value] of Object.entries({ uses, priority, processor }))
    if (typeof value !== 'function')
      throw new SluiceError('option.invalid', `${name} of withBudgets is invalid: ${show(value)}. Expected a function.`)
  durationUs(atMost, 'atMost of withBudgets')
  checkMethods(clock, ['now', 'monotonicUs', 'setTimer'], 'clock of withBudgets')
  const starts = new Starts(limiter, atMost, clock)
  return async (job, token, signal) => {
    const buckets = uses(job)
    if (buckets.length === 0) return processor(job, token, signal, null)
    const terms = { uses: buckets, priority: priority(job), id: reservationOf(job) }
    const found = await starts.next(terms, job.attemptsStarted === 1)
    if (found.kind === 'wait') return delay(job, token, clock.now() + found.ms)
    try {
      return await limiter.run(buckets, (ctx) => refusing(() => processor(job, token, signal, ctx)), {
        permit: found.permit,
        ...(signal && { signal }),
      })
    } catch (error) {
      if (!isRateLimited(error)) throw error
      const { ms } = await starts.book(terms, againAfterMs(error, clock))
      return delay(job, token, clock.now() + ms)
    }
  }
}

interface Wait {
  readonly kind: 'wait'
  readonly ms: number
}

type Start = Extract<Confirmed, { kind: 'go' }> | Wait

interface Terms {
  readonly uses: readonly Use[]
  readonly priority: number
  readonly id: string
}

/** Finds the next start of a job. */
class Starts {
  readonly #limiter: Limiter
  readonly #atMost: Duration
  readonly #clock: Clock
  /** The limiter cannot reach its backend. */
  #isDown = false

  constructor(limiter: Limiter, atMost: Duration, clock: Clock) {
    this.#limiter = limiter
    this.#atMost = atMost
    this.#clock = clock
    limiter.on('rate_limit.backend_down', () => (this.#isDown = true))
    limiter.on('rate_limit.backend_up', () => (this.#isDown = false))
  }

  /** @param isNew nothing is booked for the job */
  async next(terms: Terms, isNew: boolean): Promise<Start> {
    try {
      // No job holds its worker up with calls to a backend that is away. `acquire` notices that it is back.
      if (this.#isDown) {
        const start = await this.#instead(terms)
        if (start) return start
        if (this.#isDown) return { kind: 'wait', ms: AGAIN_MS }
      }
      const known = isNew ? null : await this.#confirmed(terms)
      if (known) return known
      // A remembered denial costs no call, and an open budget one.
      const permit = await this.#taken(terms)
      if (permit) return { kind: 'go', permit }
      const booked = await this.book(terms)
      return (booked.ms > NEAR_MS ? null : await this.#confirmed(terms)) ?? booked
    } catch (error) {
      const wait = { kind: 'wait', ms: this.#pauseMs(error, AGAIN_MS) } as const
      return mayPass(error) ? ((await this.#instead(terms).catch(() => null)) ?? wait) : wait
    }
  }

  /** Books the next start. @param againMs the time after which a job asks again that cannot be booked */
  async book({ uses, priority, id }: Terms, againMs: number = AGAIN_MS): Promise<Wait> {
    if (this.#isDown) return { kind: 'wait', ms: againMs }
    try {
      const { startAfterMs } = await this.#limiter.reserve(uses, { atMost: this.#atMost, priority, id })
      return { kind: 'wait', ms: startAfterMs }
    } catch (error) {
      return { kind: 'wait', ms: this.#pauseMs(error, againMs) }
    }
  }

  #pauseMs(error: unknown, againMs: number): number {
    if (error instanceof RateLimitRejected)
      return error.expectedStart ? error.expectedStart.getTime() - this.#clock.now() : AGAIN_MS
    if (mayPass(error)) return againMs
    throw error
  }

  /** A start in place of one that may be booked: where `failMode` is open, it goes on without the backend. */
  async #instead(terms: Terms): Promise<Start | null> {
    const permit = await this.#taken(terms)
    if (!permit) return null
    if (!this.#isDown) this.#limiter.cancel(terms.id).catch(() => undefined)
    return { kind: 'go', permit }
  }

  async #taken({ uses, priority }: Terms): Promise<Permit | null> {
    try {
      return await this.#limiter.acquire(uses, { wait: false, priority })
    } catch (error) {
      if (error instanceof RateLimitRejected) return null
      throw error
    }
  }

  /** The answer at the start of a reservation; null: there is none. */
  async #confirmed({ uses, id }: Terms): Promise<Start | null> {
    for (;;) {
      const answer = await this.#limiter.confirm(id, uses)
      if (answer.kind === 'gone') return null
      if (answer.kind === 'go') return answer
      if (answer.startAfterMs > MOVED_MS) return { kind: 'wait', ms: answer.startAfterMs }
      await new Promise<void>((resolve) => this.#clock.setTimer(resolve, answer.startAfterMs))
    }
  }
}

async function delay(job: BudgetedJob, token: string | undefined, atMs: number): Promise<never> {
  // BullMQ puts a job that comes back behind all without a priority, and before all with one: those wait for their first
  // fetch, and this one has a start to keep.
  if (job.priority) await job.changePriority?.({ priority: 0 })
  // BullMQ counts in whole milliseconds: one that began too early would be moved again.
  await job.moveToDelayed(Math.ceil(atMs), token)
  throw new DelayedError()
}

/** When a refused job asks again whose bucket cannot be closed. */
function againAfterMs(refusal: RateLimited, clock: Clock): number {
  const us = penaltyUs(refusal, { nowMs: clock.now(), intervalUs: 0, periodUs: 0 })
  return Math.max(AGAIN_MS, us / 1000)
}

/** BullMQ's own refusal names no time: it closes the bucket for one period. */
async function refusing<R>(work: () => Promise<R>): Promise<R> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof Error && error.message === 'bullmq:rateLimitExceeded')
      throw new RateLimited({ retryAfter: Number.NaN })
    throw error
  }
}

/** The same for every worker that fetches the job. */
function reservationOf(job: BudgetedJob): string {
  const { prefix } = job as { readonly prefix?: string }
  const name = `bullmq:${prefix ?? ''}:${job.queueName}:${job.id ?? ''}`
  return isName(name) ? name : `bullmq:${createHash('sha256').update(JSON.stringify(name)).digest('hex')}`
}
