import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished } from 'vitest'
import {
  type Clock,
  type Context,
  type Duration,
  type EnqueueOptions,
  input,
  type Job,
  type JobView,
  limit,
  type Limit,
  type Logger,
  type Policy,
  Sluice,
  type SluiceOptions,
  type Task,
  task,
  type TaskOptions,
} from '../../src/exports/index.ts'
import { createManualClock, type ManualClock } from '../../src/exports/testing.ts'

/** One call of the room's task: whose budget it needs, what it is called in the test, and what it costs. */
export interface Call {
  readonly key?: string | null
  readonly name?: string
  readonly weight?: number
}

/** One start of a handler, in µs since the room was opened. */
export interface Start {
  readonly id: string
  readonly name: string
  readonly key: string
  readonly weight: number
  readonly attempt: number
  readonly atUs: number
}

export interface RoomOptions {
  /** Of the limit `gate`, which the task `work.gated` uses by the call's key. */
  readonly policy: Policy
  /** Keep the jobs in a file, so that several engines, or one after another, work on it. */
  readonly file?: boolean
  /** False: no engine runs until `room.engine()` is asked for one. */
  readonly started?: boolean
  readonly engine?: Partial<SluiceOptions>
  readonly task?: Omit<TaskOptions<Call, unknown>, 'run' | 'limits'>
  /** The handler's work beside being counted. */
  readonly run?: (call: Call, ctx: Context<Call>, clock: ManualClock) => unknown
}

/** `allowed/period` with a burst, as a policy; the period in seconds. */
export function rate(
  allowed: number,
  perSeconds: number,
  burst: number = allowed,
): Extract<Policy, { rate: number }> & { rate: number; per: number; burst: number } {
  return { rate: allowed, per: Math.round(perSeconds * 1e6) / 1000, burst }
}

/** How far ahead starts are granted; the cases hold with any value. `npm test` runs them with 0, `npm run test:real` with 20 ms. */
export const AHEAD: Duration = process.env['SLUICE_TEST_AHEAD'] === '20ms' ? '20ms' : 0

/** A sliding window without a guard, so that starts are exact; the period in seconds. */
export function window(max: number, perSeconds: number): Policy {
  return { window: 'sliding', max, per: perSeconds * 1000, guard: 0 }
}

/** No refill within any test. */
export function noRefill(burst: number): Policy {
  return { rate: 1, per: '365d', burst }
}

/** A deterministic rehearsal: engines on one manual clock whose every start is recorded. */
export class Room {
  readonly clock: ManualClock
  readonly gate: Limit
  readonly gated: Task<Call, Call, unknown>
  /** The same handler without any limit. */
  readonly free: Task<Call, Call, unknown>
  readonly starts: Start[] = []
  readonly warnings: string[] = []
  readonly errors: string[] = []
  readonly store: string
  readonly jobs: Map<string, Call> = new Map()
  running = 0
  readonly #options: RoomOptions
  readonly #policy: Policy
  readonly #t0: number
  readonly #engines: Sluice[] = []
  readonly #directory: string | null

  constructor(options: RoomOptions) {
    this.#options = options
    this.#policy = options.policy
    this.clock = createManualClock()
    this.#t0 = this.clock.monotonicUs()
    this.#directory = options.file ? mkdtempSync(join(tmpdir(), 'sluice-acceptance-')) : null
    this.store = this.#directory === null ? 'sqlite::memory:' : `sqlite:${join(this.#directory, 'jobs.db')}`
    this.gate = limit('gate', options.policy)
    const run = (call: Call, ctx: Context<Call>): Promise<unknown> => this.#run(call, ctx)
    this.gated = task('work.gated', input<Call>(), {
      ...options.task,
      limits: [this.gate.by((call) => call.key ?? null, { weight: (call) => call.weight ?? 1 })],
      run,
    })
    this.free = task('work.free', input<Call>(), { ...options.task, run })
    onTestFinished(async () => {
      for (const engine of this.#engines) await this.stop(engine)
      if (this.#directory) rmSync(this.#directory, { recursive: true, force: true })
    })
  }

  static async open(options: RoomOptions): Promise<Room> {
    const room = new Room(options)
    if (options.started !== false) await room.engine()
    return room
  }

  /** One more engine on the room's store. */
  async engine(options: Partial<SluiceOptions> & { readonly started?: boolean } = {}): Promise<Sluice> {
    const { started = true, ...given } = options
    const engine = new Sluice({
      store: this.store,
      tasks: [this.gated, this.free],
      clock: this.clock,
      logger: this.logger(),
      queues: { default: { concurrency: 100 } },
      // Ended jobs are examined when the case ends, however long it took.
      retention: { completed: '400d', cancelled: '400d', discarded: '400d' },
      ahead: AHEAD,
      ...this.#options.engine,
      ...given,
    })
    this.#engines.push(engine)
    if (started) await engine.start()
    return engine
  }

  get first(): Sluice {
    const [engine] = this.#engines
    if (!engine) throw new Error('the room has no engine')
    return engine
  }

  get last(): Sluice {
    return this.#engines.at(-1) ?? this.first
  }

  /** Stops an engine without letting anything finish, and forgets it. */
  async halt(engine: Sluice = this.first): Promise<void> {
    await this.stop(engine)
    this.#engines.splice(this.#engines.indexOf(engine), 1)
  }

  /** Stops an engine, of the room or of the test; handlers that sleep on the clock are given time to be given up. */
  async stop(engine: Sluice): Promise<void> {
    const end = { reached: false }
    const stopping = engine.stop({ within: 0 }).finally(() => (end.reached = true))
    await this.clock.advance(0)
    while (!end.reached) await this.clock.advance('1s')
    await stopping
  }

  logger(): Logger {
    return {
      debug: () => undefined,
      info: () => undefined,
      warn: (_, message) => void this.warnings.push(message),
      error: (fields, message) => {
        // The cases look at discards themselves.
        if (message === 'a job was discarded') return
        const err = 'err' in fields ? fields.err : null
        this.errors.push(`${message} ${err instanceof Error ? (err.stack ?? err.message) : ''}`)
      },
    }
  }

  async enqueue(call: Call, options: EnqueueOptions<Call> = {}, engine: Sluice = this.last): Promise<Job<unknown>> {
    const job = await engine.enqueue(this.gated, call, options)
    this.jobs.set(job.id, call)
    return job
  }

  /** Several calls in one transaction; named with their number. */
  async enqueueMany(
    count: number,
    call: Call,
    options: EnqueueOptions<Call> = {},
    engine: Sluice = this.last,
  ): Promise<Job<unknown>[]> {
    const calls = Array.from({ length: count }, (_, i) => ({
      ...call,
      name: `${call.name ?? call.key ?? 'job'}${i + 1}`,
    }))
    const jobs = await Promise.all(calls.map((each) => engine.enqueue(this.gated, each, options)))
    for (const [i, job] of jobs.entries()) this.jobs.set(job.id, calls[i] as Call)
    return jobs
  }

  async enqueueFree(call: Call, options: EnqueueOptions<Call> = {}, engine: Sluice = this.last): Promise<Job<unknown>> {
    const job = await engine.enqueue(this.free, call, options)
    this.jobs.set(job.id, call)
    return job
  }

  /** µs since the room was opened. */
  get atUs(): number {
    return this.clock.monotonicUs() - this.#t0
  }

  /** The wall clock so many seconds after the room was opened, if no step has moved it. */
  wall(seconds: number): Date {
    return new Date(this.clock.now() - this.atUs / 1000 + seconds * 1000)
  }

  /** Lets time pass until so many seconds after the opening, then looks whether what waits waits as it should. */
  async until(seconds: number, options: { readonly look?: boolean } = {}): Promise<void> {
    await this.clock.advance((Math.round(seconds * 1e6) - this.atUs) / 1000)
    if (options.look !== false) await this.look()
  }

  /**
   * No slot is held by a job that only waits, and every waiting job says from storage what it waits for and until when.
   */
  async look(): Promise<void> {
    const engine = this.#engines.at(-1)
    if (!engine) return
    const active = await engine.jobs.list({ states: ['active'], limit: 1000 })
    const waits = await Promise.all(active.map(({ id }) => engine.jobs.explain(id)))
    const held = waits.filter(({ expectedStart }) => expectedStart !== null).length
    expect(active.length, `slots taken at ${this.atUs} µs, handlers that run and held starts`).toBe(this.running + held)
    for (const job of await engine.jobs.list({ states: ['available'], limit: 12 })) {
      const why = await engine.jobs.explain(job.id)
      expect(why.job).toMatchObject({ id: job.id, state: 'available' })
      expect(why.position).toBeGreaterThan(0)
      if (this.running > 0) continue
      expect(why.waitsOn, `${why.words} (at ${this.atUs} µs)`).not.toBeNull()
      expect(why.until?.getTime() ?? 0, `${why.words} (until)`).toBeGreaterThanOrEqual(Math.floor(this.#storeNowMs()))
    }
  }

  /** Store time runs on, no matter how the wall clock steps. */
  #storeNowMs(): number {
    return Date.parse('2026-01-01T00:00:00Z') + this.atUs / 1000
  }

  /** The starts of one key, in seconds since the opening. */
  secondsOf(key: string): number[] {
    return this.starts.filter((start) => start.key === key).map((start) => start.atUs / 1e6)
  }

  /** The starts as `name@seconds`, in order. */
  get story(): string[] {
    return this.starts.map((start) => `${start.name}@${start.atUs / 1e6}`)
  }

  view(job: { readonly id: string }): Promise<JobView | null> {
    return this.last.jobs.get(job.id)
  }

  /**
   * Ends a case: budgets held on the real starts, each job started once per attempt, nothing lost, nothing logged as an error.
   * @param options.waiting how many jobs may still wait.
   */
  async finish(options: { readonly waiting?: number; readonly pushedBack?: number } = {}): Promise<void> {
    for (const key of new Set(this.starts.map((start) => start.key)))
      expectWithinBudget(
        this.#policy,
        this.starts.filter((start) => start.key === key && this.#isGated(start)),
        key,
      )
    expectOncePerAttempt(this.starts, options.pushedBack ?? 0)
    await this.#expectNothingLost(options.waiting ?? 0, options.pushedBack ?? 0)
    expect(this.errors).toEqual([])
  }

  #isGated(start: Start): boolean {
    return start.key !== '' && start.key !== FREE
  }

  async #expectNothingLost(mayWait: number, pushedBack: number): Promise<void> {
    const engine = this.#engines.at(-1) ?? (await this.engine({ started: false }))
    const startsOf = new Map<string, number>()
    for (const start of this.starts) startsOf.set(start.id, (startsOf.get(start.id) ?? 0) + 1)
    let waiting = 0
    let surplus = 0
    for (const id of this.jobs.keys()) {
      const job = await engine.jobs.get(id)
      expect(job, `job ${id} is stored`).not.toBeNull()
      if (!job) continue
      surplus += (startsOf.get(id) ?? 0) - job.attempt
      // A held start has its attempt already.
      if (job.state === 'active' && (await engine.jobs.explain(id)).expectedStart !== null) surplus++
      if (job.finishedAt === null) waiting++
    }
    expect(surplus, 'starts beyond the recorded attempts').toBe(pushedBack)
    expect(waiting, 'jobs that still wait').toBe(mayWait)
  }

  async #run(call: Call, ctx: Context<Call>): Promise<unknown> {
    this.starts.push({
      id: ctx.job.id,
      name: call.name ?? call.key ?? '',
      key: call.key ?? '',
      weight: call.weight ?? 1,
      attempt: ctx.attempt,
      atUs: this.atUs,
    })
    this.running++
    try {
      return await this.#options.run?.(call, ctx, this.clock)
    } finally {
      this.running--
    }
  }
}

/** The key of calls that no limit holds. */
export const FREE = 'free'

/** Starts are where they should be: never early, and at most one µs late. */
export function expectSeconds(actual: readonly number[], expected: readonly number[]): void {
  expect(actual.length, `starts: ${actual.slice(0, 40).join(' ')}`).toBe(expected.length)
  for (const [i, seconds] of expected.entries()) {
    const lateUs = Math.round((actual[i] as number) * 1e6) - Math.ceil(seconds * 1e6 - 1e-3)
    expect(lateUs, `start ${i + 1} of ${actual.length} at ${actual[i]} s, expected at ${seconds} s; µs late`).toBe(0)
  }
}

/** `count` times the same instant, for lists of expected starts. */
export function times(count: number, seconds: number): number[] {
  return Array.from({ length: count }, () => seconds)
}

/** Instants from `first` to `last` in steps. */
export function every(step: number, first: number, last: number): number[] {
  const count = Math.round((last - first) / step) + 1
  return Array.from({ length: count }, (_, i) => Math.round((first + i * step) * 1e6) / 1e6)
}

/**
 * No interval holds more than the policy allows, wherever it starts: for a rate `burst + rate · length`, for a sliding window `max`,
 * for a spacing one start per interval.
 * @param slackUs for starts that were measured: how far two measurements may disagree.
 */
export function expectWithinBudget(
  policy: Policy,
  starts: readonly { readonly atUs: number; readonly weight: number }[],
  what: string,
  slackUs = 0,
): void {
  const sorted = [...starts].sort((a, b) => a.atUs - b.atUs)
  if ('rate' in policy && policy.rate !== undefined) {
    const perUs = usOf(policy.per)
    const burst = policy.burst ?? policy.rate
    // Units so far in 1/rate µs less the time that has passed: it may not rise by more than a burst. A start waits for a whole µs, at most one more.
    let units = 0
    let least = Infinity
    for (const { atUs, weight } of sorted) {
      const passed = atUs * policy.rate
      least = Math.min(least, units * perUs - passed)
      units += weight
      const over = units * perUs - passed - least - burst * perUs
      expect(over, `${what}: over the envelope of the budget at ${atUs} µs`).toBeLessThan((1 + slackUs) * policy.rate)
    }
    return
  }
  if ('max' in policy && policy.max !== undefined) {
    const perUs = usOf(policy.per)
    for (const [i, from] of sorted.entries()) {
      let units = 0
      for (
        let j = i;
        j < sorted.length && (sorted[j] as { atUs: number; weight: number }).atUs - from.atUs < perUs - slackUs;
        j++
      )
        units += (sorted[j] as { atUs: number; weight: number }).weight
      expect(units, `${what}: units in the window from ${from.atUs} µs`).toBeLessThanOrEqual(policy.max)
    }
    return
  }
  if ('every' in policy && policy.every !== undefined)
    for (let i = 1; i < sorted.length; i++) {
      const gapUs = (sorted[i]?.atUs ?? 0) - (sorted[i - 1]?.atUs ?? 0)
      expect(gapUs, `${what}: gap`).toBeGreaterThanOrEqual(usOf(policy.every) - slackUs)
    }
}

/** Each attempt of each job has started once. */
export function expectOncePerAttempt(
  starts: readonly { readonly id: string; readonly attempt: number }[],
  pushedBack = 0,
): void {
  const seen = new Set(starts.map((start) => `${start.id} ${start.attempt}`))
  expect(starts.length - seen.size, 'attempts that started more than once').toBe(pushedBack)
}

function usOf(duration: unknown): number {
  if (typeof duration === 'number') return Math.round(duration * 1000)
  const found = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(String(duration))
  const unit = { ms: 1e3, s: 1e6, m: 6e7, h: 3.6e9, d: 8.64e10 }[found?.[2] as 'ms']
  if (!found || unit === undefined) throw new Error(`the harness cannot read the duration ${String(duration)}`)
  return Number(found[1]) * unit
}

/** The same clock with a wall that is off: another process's idea of the time. */
export function skewed(clock: ManualClock, byMs: number): Clock {
  return {
    bootId: clock.bootId,
    now: () => clock.now() + byMs,
    monotonicUs: () => clock.monotonicUs(),
    setTimer: (run, delayMs) => clock.setTimer(run, delayMs),
    attach: (activity) => clock.attach?.(activity) ?? ((): void => undefined),
  }
}
