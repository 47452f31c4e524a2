// Runs one scenario to its end in virtual time, instant by instant, and holds the fleet to its promises at each of them.
import { SluiceError } from '../../src/base/errors.ts'
import { input } from '../../src/jobs/schema.ts'
import { NonRetryable } from '../../src/jobs/handler-errors.ts'
import { RateLimited } from '../../src/jobs/rate-limited.ts'
import type { SettleResult, Settlement } from '../../src/jobs/settlement.ts'
import { Sluice } from '../../src/engine/engine.ts'
import { limit, type Limit } from '../../src/policy/limits/define.ts'
import { type Context, type Task, task } from '../../src/engine/define/task.ts'
import type { Claim, Run, Unstarted } from '../../src/store/contract/store.ts'
import { createManualClock, type ManualClock } from '../../src/testing/manual-clock.ts'
import { type Change, type LaneRow, WatchedFile } from './file.ts'
import { Engine, limitUse, type Sabotage, storeOf, type Observer } from './fleet.ts'
import { brokenBudget, ReferenceBucket, ReferenceLimit } from './reference.ts'
import { type Action, behaviourOf, type JobSpec, type Scenario, scenarioOf, type Use } from './scenario.ts'
import { type Clocks, type Occurred, ReferenceSeries } from './series.ts'

const SCHEDULED = 0
const AVAILABLE = 1
const ACTIVE = 2
const COMPLETED = 3
const RETRYABLE = 4
const CANCELLED = 6
const DISCARDED = 7

/** How soon another process's commit is noticed, µs. */
const NOTICE_US = 50_000
/** How soon a process that was alone notices that it has company, µs. */
const COMPANY_US = 1_000_000
/** How soon it is noticed that the wall clock was stepped, µs. */
const POLL_US = 5_000_000
/** How much later than possible a start may be that is granted ahead of others, µs. */
const AHEAD_US = 100_000
/** How far two readings of two clocks lie apart, µs. */
const READING_US = 1000
const RECOVER_EVERY_US = 5_000_000
const END_US = 900_000_000

/** A job as the changes of its row tell it. */
interface Ledger {
  readonly seq: number
  readonly id: string
  spec: JobSpec
  state: number
  attempt: number
  due: number | null
  /** The run that holds it now. */
  run: string | null
  startedUs: number
  leaseEndUs: number
  sinceUs: number
  createdUs: number
  runs: number
}

interface Waiting {
  readonly lane: LaneRow | null
  readonly head: Ledger
}

/** A promise that was broken, with the seed that shows it. */
export class BrokenPromise extends Error {}

/** The events of a run of the simulator, to show that there were some. */
export interface Summary {
  readonly starts: number
  readonly jobs: number
  readonly crashes: number
  readonly lost: number
  /** Overrides, pauses, penalties, charges and definitions. */
  readonly changes: number
  readonly occurrences: number
  /** Starts that were granted ahead, and those of them that died with their engine or went back. */
  readonly ahead: number
  readonly unbegun: number
  readonly virtualMs: number
}

/** Runs the scenario of one seed. @param ahead with starts that are granted ahead. @throws BrokenPromise */
export async function simulate(seed: number, sabotage: Sabotage = (store) => store, ahead = false): Promise<Summary> {
  const simulation = new Simulation(scenarioOf(seed, ahead), sabotage)
  try {
    return await simulation.run()
  } finally {
    simulation.close()
  }
}

class Simulation implements Observer {
  readonly #scenario: Scenario
  readonly #sabotage: Sabotage
  readonly #clock: ManualClock = createManualClock()
  readonly #file = new WatchedFile()
  /** As an engine that starts now defines them. */
  #limits: ReadonlyMap<string, Limit>
  readonly #standing: ReadonlyMap<string, ReferenceLimit>
  readonly #versions = new Map<string, number>()
  readonly #series = new Map<string, ReferenceSeries>()
  /** The fates of occurrences at this instant. */
  readonly #occurred = new Map<string, Occurred[]>()
  readonly #engines: Engine[] = []
  readonly #specs = new Map<number, JobSpec>()
  /** The last instant at which a job may start, by its number. */
  readonly #latest = new Map<number, number>()
  readonly #jobs = new Map<number, Ledger>()
  readonly #buckets = new Map<string, ReferenceBucket>()
  /** Buckets that no engine has looked at yet: one that begins empty fills from then on. */
  readonly #unborn = new Map<string, ReferenceBucket>()
  readonly #starts = new Map<string, { atUs: number; units: number; span: number }[]>()
  readonly #settlements = new Map<string, Settlement>()
  readonly #released = new Map<string, Unstarted>()
  readonly #cancelled = new Set<number>()
  readonly #replaced = new Set<number>()
  readonly #returned = new Set<string>()
  /** Since when a head could have started. */
  readonly #couldSince = new Map<string, number>()
  /** Handlers entered at this instant, by run; and runs handed to an engine at this instant. */
  #entered = new Map<string, Engine>()
  #handed = new Map<string, Engine>()
  /** Runs granted ahead that their engine holds, by run. */
  readonly #held = new Map<
    string,
    { readonly engine: Engine; readonly atUs: number; readonly queue: string; readonly seq: number }
  >()
  readonly #looksAhead: boolean
  #ahead = 0
  #unbegun = 0
  #joinedUs = -Infinity
  /** The times at which a claim of each engine started nothing, and yet was to be repeated at once. */
  readonly #idle = new Map<Engine, number>()
  /** When more than one engine was last at work. */
  #companyUs = -Infinity
  #steppedUs = -Infinity
  #nextTryUs = Infinity
  #crashes = 0
  #lost = 0
  #changes = 0
  #occurrences = 0
  #failure: BrokenPromise | null = null

  constructor(scenario: Scenario, sabotage: Sabotage) {
    this.#sabotage = sabotage
    this.#scenario = scenario
    this.#looksAhead = scenario.aheadMs.length > 0
    this.#limits = new Map(scenario.limits.map((each) => [each.name, limit(each.name, each.policy)]))
    this.#standing = new Map(scenario.limits.map((each) => [each.name, new ReferenceLimit(each.reference)]))
  }

  async run(): Promise<Summary> {
    await this.#start(0)
    for (const queue of this.#scenario.queues) for (const use of queue.uses) this.#bucket(use.limit.name, use.key)
    this.#file.watch()
    for (let place = 1; place < this.#scenario.engines; place++) await this.#start(place)
    await this.#settleDown()
    const beganUs = this.#nowUs()
    for (const action of this.#scenario.actions) {
      await this.#until(beganUs + action.atUs)
      await this.#act(action)
      await this.#settleDown()
    }
    // Every process that was going to die has had its occasion.
    for (const engine of this.#engines) engine.store.fate = null
    for (let i = 0; i < this.#scenario.engines; i++) await this.#act({ kind: 'start', atUs: 0 })
    // A job scheduled by a wall clock that has gone back would have to wait for it.
    const wallUs = this.#clock.now() * 1000
    const aheadUs = Math.max(0, ...this.#left().map((job) => (job.state === SCHEDULED ? (job.due ?? 0) - wallUs : 0)))
    if (aheadUs > POLL_US) await this.#act({ kind: 'step', atUs: 0, byMs: aheadUs / 1000 })
    while (this.#left().length > 0) {
      if (this.#nowUs() - beganUs > END_US + (this.#scenario.actions.at(-1)?.atUs ?? 0))
        this.#fail(
          `${this.#left()
            .map((job) => `job ${job.spec.n} in state ${job.state}`)
            .join(', ')}: never ended`,
        )
      await this.#until(this.#nowUs() + 60_000_000, () => this.#left().length === 0)
    }
    this.#checkEnd()
    return {
      starts: [...this.#jobs.values()].reduce((sum, job) => sum + job.runs, 0),
      jobs: this.#jobs.size,
      crashes: this.#crashes,
      lost: this.#lost,
      changes: this.#changes,
      occurrences: this.#occurrences,
      ahead: this.#ahead,
      unbegun: this.#unbegun,
      virtualMs: (this.#nowUs() - beganUs) / 1000,
    }
  }

  close(): void {
    for (const engine of this.#engines) {
      engine.die()
      void engine.store.inner.close()
    }
    this.#file.close()
  }

  // ------------------------------------------------------------------------------------------ time

  #nowUs(): number {
    return this.#engines[0]!.store.nowUs()
  }

  /** Goes on from instant to instant: wherever a timer is due, and wherever the reference says that something must start. */
  async #until(untilUs: number, done: () => boolean = () => false): Promise<void> {
    while (!done()) {
      const nowUs = this.#nowUs()
      const timerUs = Math.round((this.#clock.next() ?? Infinity) * 1000)
      this.#noteCompany(nowUs)
      const byUs = Math.min(untilUs - nowUs, timerUs, Math.max(0, this.#nextTryUs - nowUs))
      await this.#clock.advance(byUs / 1000)
      this.#judge()
      if (nowUs + byUs >= untilUs) return
    }
  }

  /** Lets everything happen that can at this instant, and judges it. */
  async #settleDown(): Promise<void> {
    await this.#clock.advance(0)
    this.#judge()
  }

  /** Everything that can happen at this instant has happened: read what it was, and judge. */
  #judge(): void {
    const nowUs = this.#nowUs()
    this.#expire(nowUs)
    const changes = this.#file.changes()
    this.#bear(nowUs)
    for (const change of changes) this.#apply(change, nowUs)
    this.#bear(nowUs)
    this.#accountForSeries()
    if (this.#failure) throw this.#failure
    for (const run of this.#entered.keys()) {
      const job = this.#jobs.get(Number(run.split(':')[0]))
      if (job?.run === run && job.startedUs > nowUs)
        this.#fail(`the handler of run ${run} started at ${nowUs}, before its instant ${job.startedUs}`)
    }
    this.#judgeHeld(nowUs)
    for (const [run, engine] of this.#handed)
      if (this.#entered.get(run) !== engine && !engine.dead)
        this.#fail(`run ${run} was handed to engine ${engine.place}, but its handler did not start at that instant`)
    for (const [run, engine] of this.#entered)
      if (this.#handed.get(run) !== engine && !engine.dead)
        this.#fail(`the handler of run ${run} started on engine ${engine.place} without a claim at that instant`)
    this.#entered = new Map()
    this.#handed = new Map()
    if (changes.length > 0 || nowUs >= this.#nextTryUs) this.#checkConserving(nowUs)
    this.#checkRecovery(nowUs)
  }

  /** A start that was granted ahead begins at its instant, and never before; of an engine that ends, not at all. */
  #judgeHeld(nowUs: number): void {
    for (const [run, { engine, atUs, seq }] of this.#held) {
      if (this.#jobs.get(seq)!.startedUs !== atUs)
        this.#fail(`run ${run} is stored to start at another time than ${atUs}`)
      const began = this.#entered.get(run) === engine
      if (nowUs < atUs && !engine.dead) continue
      if (!began && !engine.dead)
        this.#fail(`run ${run} was to start at ${atUs} on engine ${engine.place}, but did not`)
      this.#held.delete(run)
      if (began) this.#handed.set(run, engine)
      else this.#unbegun++
    }
  }

  #bear(nowUs: number): void {
    if (this.#unborn.size === 0) return
    for (const { name, looked } of this.#file.buckets().values()) {
      if (!looked) continue
      this.#unborn.get(name)?.bear(nowUs)
      this.#unborn.delete(name)
    }
  }

  /** Overrides and pauses whose time is over have ended, before anything else happens at this instant. */
  #expire(nowUs: number): void {
    for (const [name, standing] of this.#standing) {
      for (let endUs = standing.nextEndUs; endUs <= nowUs; endUs = standing.nextEndUs) {
        standing.expire(endUs)
        this.#retime(name, endUs)
      }
    }
  }

  /** Another policy may be in force for a limit now: its buckets carry over. */
  #retime(name: string, atUs: number): void {
    const stored = new Set([...this.#file.buckets().values()].filter((each) => each.looked).map((each) => each.name))
    for (const [bucketName, bucket] of this.#buckets) {
      if (!bucketName.startsWith(`${name}:`)) continue
      if (!stored.has(bucketName) && !this.#unborn.has(bucketName)) {
        bucket.forget()
        this.#unborn.set(bucketName, bucket)
      }
      bucket.change(atUs, this.#standing.get(name)!.inForce(bucketName.slice(name.length + 1)))
    }
  }

  #clocks(): Clocks {
    return { nowUs: this.#nowUs(), wallUs: Math.round(this.#clock.now() * 1000) }
  }

  #occur(name: string, occurred: Occurred): void {
    const known = this.#occurred.get(name)
    if (known) known.push(occurred)
    else this.#occurred.set(name, [occurred])
  }

  #accountForSeries(): void {
    const clocks = this.#clocks()
    for (const [name, happened] of this.#occurred) {
      const series = this.#series.get(name)
      if (!series) continue
      const next = this.#file.schedule(name)
      if (!next) continue
      const live = [...series.jobs].some((seq) => this.#wasLive(seq, clocks.nowUs))
      const wrong = series.account(happened, clocks, live, next)
      if (wrong !== null) this.#note(wrong)
      this.#occurrences += happened.length
    }
    this.#occurred.clear()
  }

  /** Whether a job had come before this instant and has not ended yet. */
  #wasLive(seq: number, nowUs: number): boolean {
    const job = this.#jobs.get(seq)
    return job !== undefined && !isOver(job.state) && job.createdUs < nowUs
  }

  // --------------------------------------------------------------------------------------- actions

  async #start(place: number): Promise<void> {
    const engine = new Engine({
      place,
      path: this.#file.path,
      clock: this.#clock,
      scenario: this.#scenario,
      limits: this.#limits,
      task: (self) => this.#task(self),
      observer: this,
      sabotage: this.#sabotage,
    })
    this.#engines.push(engine)
    await engine.sluice.start()
    this.#joinedUs = Math.max(this.#joinedUs, this.#nowUs())
    this.#noteCompany(this.#nowUs())
  }

  #noteCompany(nowUs: number): void {
    if (this.#engines.filter((engine) => !engine.dead && !engine.stopped).length > 1) this.#companyUs = nowUs
  }

  async #act(action: Action): Promise<void> {
    const alive = this.#engines.filter((engine) => !engine.gone)
    if (action.kind === 'step') {
      this.#clock.step(action.byMs)
      this.#steppedUs = this.#nowUs()
      return
    }
    if (action.kind === 'start') {
      const place = Array.from({ length: this.#scenario.engines }, (_, i) => i).find(
        (i) => !alive.some((each) => each.place === i),
      )
      return place === undefined ? undefined : this.#start(place)
    }
    const engine = alive[('engine' in action ? action.engine : 0) % alive.length]
    if (!engine) return
    if (action.kind === 'schedule') await this.#schedule(engine, action.series)
    else if (action.kind === 'unschedule') {
      this.#series.delete(action.name)
      await Promise.race([engine.sluice.schedules.remove(action.name), this.#clock.advance(0)])
    } else if ('limit' in action) await this.#control(engine, action)
    else if (action.kind === 'enqueue') for (const job of action.jobs) await this.#enqueue(engine, job)
    else if (action.kind === 'cancel') await this.#cancel(engine, action.pick)
    else if (action.kind === 'silence') engine.store.silentUntilUs = this.#nowUs() + action.forUs
    else if (action.kind === 'stop') engine.stop(action.withinMs)
    else if (action.how === 'idle') this.#kill(engine)
    else {
      engine.store.fate = action.how
      this.#crashes++
    }
    if (action.kind === 'silence') this.#joinedUs = Math.max(this.#joinedUs, engine.store.silentUntilUs + POLL_US)
  }

  async #control(engine: Engine, action: Extract<Action, { limit: unknown }>): Promise<void> {
    const { limits } = engine.sluice
    const { name } = action.limit
    const nowUs = this.#nowUs()
    const standing = this.#standing.get(name)!
    this.#changes++
    if (action.kind === 'penalize' || action.kind === 'charge') {
      const bucket = this.#bucket(name, action.key)
      if (action.kind === 'charge') bucket.charge(nowUs, action.units)
      else bucket.close(nowUs, nowUs + action.forMs * 1000)
      const told =
        action.kind === 'charge'
          ? engine.store.asStore().charge(name, action.key, action.units, nowUs)
          : limits.penalize(name, action.key === '' ? undefined : action.key, action.forMs)
      return this.#answered(told)
    }
    if (action.kind === 'deploy') return this.#deploy(action.limit, action.version)
    const key = action.key ?? undefined
    const isPause = action.kind === 'pause' || (action.kind === 'end' && action.of === 'pause')
    const until = 'forMs' in action && action.forMs !== null ? { until: action.forMs } : {}
    if (action.kind === 'end') standing.end(action.key, isPause)
    else {
      const untilUs = action.forMs === null ? Infinity : nowUs + Math.round(action.forMs * 1000)
      standing.begin(action.key, action.kind === 'override' ? action.reference : null, untilUs)
    }
    this.#retime(name, nowUs)
    if (action.kind === 'override') return this.#answered(limits.override(name, key, action.change, until))
    if (action.kind === 'pause') return this.#answered(limits.pause(name, key, until))
    return this.#answered(isPause ? limits.resume(name, key) : limits.clearOverride(name, key))
  }

  /** A newer deployment says something else of a limit; those that run go on with what they know. */
  async #deploy({ name, policy, reference }: Scenario['limits'][number], version: number): Promise<void> {
    // An older one that comes later does not win.
    if (version < (this.#versions.get(name) ?? 0)) return this.#define(limit(name, { ...policy, version }))
    this.#versions.set(name, version)
    const newer = limit(name, { ...policy, version })
    this.#limits = new Map([...this.#limits, [name, newer]])
    this.#standing.get(name)!.definition = reference
    this.#retime(name, this.#nowUs())
    await this.#define(newer)
  }

  async #define(newer: Limit): Promise<void> {
    const { path } = this.#file
    const store = this.#sabotage(storeOf(path, this.#clock), path)
    const process = new Sluice({ store, tasks: [], limits: [newer], clock: this.#clock })
    await this.#answered(process.limits.list())
    await this.#answered(process.stop())
    this.#joinedUs = Math.max(this.#joinedUs, this.#nowUs())
    this.#companyUs = this.#nowUs()
  }

  /** The engine's answer, if it lives to answer; a refusal is a fault of the simulator or of the engine. */
  async #answered(told: Promise<unknown>): Promise<void> {
    const heard = told.catch((error: unknown) => this.#note(`a change was refused: ${String(error)}`))
    await Promise.race([heard, this.#clock.advance(0)])
    await this.#clock.advance(0)
  }

  async #schedule(engine: Engine, series: ReferenceSeries['spec']): Promise<void> {
    this.#specs.set(series.n, series.job)
    this.#series.set(series.name, new ReferenceSeries(series, this.#clocks()))
    const { name, immediately, overlap, onMissed, maxRuns, untilMs } = series
    const often = series.kind === 'every' ? { every: series.everyMs } : { cron: `*/${series.everyMs / 1000} * * * * *` }
    await this.#answered(
      engine.sluice.schedule(
        engine.task,
        { n: series.n },
        {
          ...often,
          name,
          immediately,
          overlap,
          onMissed,
          queue: series.job.queue,
          priority: series.job.priority,
          limits: series.job.uses.map((use) => limitUse(engine.limits, use)),
          ...(maxRuns === null ? {} : { maxRuns }),
          ...(untilMs === null ? {} : { until: new Date(this.#clock.now() + untilMs) }),
        },
      ),
    )
    this.#joinedUs = Math.max(this.#joinedUs, this.#nowUs())
  }

  #kill(engine: Engine): void {
    this.#crashes++
    engine.die()
  }

  async #enqueue(engine: Engine, job: JobSpec): Promise<void> {
    if (engine.gone) return
    this.#specs.set(job.n, job)
    // An engine that dies over the call never answers: then it is not waited for.
    const answer = engine.sluice
      .enqueue(
        engine.task,
        { n: job.n },
        {
          queue: job.queue,
          priority: job.priority,
          limits: job.uses.map((use) => limitUse(engine.limits, use)),
          ...(job.delayMs === null ? {} : { delay: job.delayMs }),
          ...(job.expiresMs === null ? {} : { expiresAt: this.#expiry(job.n, job.expiresMs) }),
          ...(job.unique === null ? {} : { unique: job.unique }),
        },
      )
      .catch((error: unknown) => {
        if (!(error instanceof SluiceError) || error.code !== 'unique.conflict' || job.unique?.onConflict !== 'reject')
          this.#note(`enqueue of job ${job.n} was refused: ${String(error)}`)
      })
    await Promise.race([answer, this.#clock.advance(0)])
    await this.#clock.advance(0)
  }

  #expiry(n: number, ms: number): Date {
    const at = new Date(Math.ceil(this.#clock.now()) + ms)
    const { nowUs, wallUs } = this.#clocks()
    this.#latest.set(n, at.getTime() * 1000 + nowUs - wallUs)
    return at
  }

  async #cancel(engine: Engine, pick: number): Promise<void> {
    // Mostly one that still waits: there are more ways to get that wrong.
    const waiting = this.#left().filter((job) => job.state !== ACTIVE)
    const jobs = pick % 4 === 0 || waiting.length === 0 ? [...this.#jobs.values()] : waiting
    const job = jobs[pick % jobs.length]
    if (!job) return
    this.#cancelled.add(job.seq)
    await Promise.race([engine.sluice.jobs.cancel(job.id), this.#clock.advance(0)])
  }

  #task(engine: Engine): Task<{ n: number }, { n: number }, unknown> {
    const { attempts, retryDelayMs, timeoutMs } = this.#scenario
    return task('work', input<{ n: number }>(), {
      retry: { attempts, backoff: 'fixed', initial: retryDelayMs, jitter: false },
      ...(timeoutMs === null ? {} : { timeout: timeoutMs }),
      run: ({ n }, ctx) => this.#handle(engine, n, ctx),
    })
  }

  async #handle(engine: Engine, n: number, ctx: Context<{ n: number }>): Promise<unknown> {
    const job = [...this.#jobs.values()].find((each) => each.id === ctx.job.id)
    const seq = job?.seq ?? this.#file.seqOf(ctx.job.id)
    const spec = this.#specs.get(n)!
    const run = `${seq}:${ctx.attempt}`
    const behaviour = behaviourOf(
      this.#scenario.seed,
      n,
      ctx.attempt * 1000 + (job?.runs ?? 0) + (n >= 10_000 ? seq * 31 : 0),
    )
    this.#entered.set(run, engine)
    for (const other of this.#engines)
      for (const [theirs, { seq: same }] of other.running)
        if (same === seq && !this.#mayHaveLost(other))
          this.#note(
            `run ${run} starts on engine ${engine.place} while run ${theirs} goes on engine ${other.place}, which never lost a lease`,
          )
    engine.running.set(run, { queue: spec.queue, seq })
    await this.#sleep(engine, behaviour.lastsMs, ctx.signal, behaviour.deaf)
    engine.running.delete(run)
    if (behaviour.end === 'throw') throw new Error('as it was told')
    if (behaviour.end === 'fatal') throw new NonRetryable('as it was told')
    if (behaviour.end === 'refused') {
      const first = spec.uses[0]
      throw new RateLimited({
        retryAfter: behaviour.retryAfterMs,
        ...(first ? { limit: first.limit.name } : {}),
      })
    }
    this.#returned.add(run)
    return n
  }

  /** A cancel, and a timeout, end the run at once: its slot is free, no matter how the handler reacts. */
  #sleep(engine: Engine, ms: number, signal: AbortSignal, deaf: boolean): Promise<void> {
    return new Promise((resolve) => {
      if (ms === 0) return resolve()
      const timer = engine.clock.setTimer(resolve, ms)
      signal.addEventListener('abort', () => {
        const { code } = signal.reason as SluiceError
        if (deaf && (code === 'lease.lost' || code === 'engine.stopped')) return
        timer.cancel()
        resolve()
      })
    })
  }

  // --------------------------------------------------------------------------------- what engines tell

  /** A claim that is to be made again at once must have started, rejected, looked at or moved something, or the one before it. */
  #spins(engine: Engine, claim: Claim): void {
    const { jobs, rejected, schedules, flows, looks, nowUs, nextWakeUs } = claim
    const isIdle = jobs.length + rejected.length + schedules.length + flows.length + looks === 0
    const again = isIdle && nextWakeUs !== null && nextWakeUs <= nowUs
    if (again && this.#idle.get(engine) === nowUs)
      this.#failure ??= new BrokenPromise(`engine ${engine.place} claims again and again at ${nowUs} for nothing`)
    this.#idle.set(engine, again ? nowUs : -1)
  }

  claimed(engine: Engine, claim: Claim): void {
    this.#spins(engine, claim)
    const dies = engine.store.fate === 'after-claim' && claim.jobs.length > 0
    const horizonUs = claim.nowUs + (this.#scenario.aheadMs[engine.place] ?? 0) * 1000
    for (const job of claim.jobs) {
      const run = `${job.seq}:${job.attempt}`
      if (job.startedUs > horizonUs || job.startedUs < claim.nowUs)
        this.#note(`run ${run} is to start at ${job.startedUs}, granted at ${claim.nowUs}, to ${horizonUs}`)
      if (job.startedUs > claim.nowUs) this.#ahead++
      if (dies || engine.stopping !== null) continue
      if (job.startedUs > claim.nowUs)
        this.#held.set(run, { engine, atUs: job.startedUs, queue: job.queue, seq: job.seq })
      else this.#handed.set(run, engine)
    }
    for (const news of claim.schedules) {
      if (news.kind === 'skipped')
        this.#occur(news.occurrence.schedule, { dueMs: news.occurrence.dueMs, kind: news.reason })
      else if (news.kind === 'ended') this.#occurred.set(news.schedule, this.#occurred.get(news.schedule) ?? [])
    }
  }

  settled(_engine: Engine, settlement: Settlement, answer: SettleResult): void {
    const run = `${settlement.seq}:${settlement.attempt}`
    if (answer.kind === 'settled') {
      if (
        this.#settlements.has(run) &&
        settlement.kind !== 'push-back' &&
        settlement.kind !== 'give-back' &&
        this.#settlements.get(run)?.kind === 'complete'
      )
        this.#note(`run ${run} was settled twice`)
      this.#settlements.set(run, settlement)
    } else this.#lost++
  }

  released(_engine: Engine, runs: readonly Unstarted[]): void {
    for (const each of runs) {
      const run = `${each.seq}:${each.attempt}`
      this.#released.set(run, each)
      if (this.#held.delete(run)) this.#unbegun++
    }
  }

  complained(engine: Engine, about: object, message: string): void {
    const { err } = about as { err?: Error }
    this.#note(`engine ${engine.place} complains: ${message}: ${err?.stack ?? ''}`)
  }

  beat(_engine: Engine, runs: readonly Run[]): void {
    const untilUs = this.#nowUs() + this.#scenario.leaseMs * 1000
    for (const { seq, attempt } of runs) {
      const job = this.#jobs.get(seq)
      if (job?.run === `${seq}:${attempt}`) job.leaseEndUs = untilUs
    }
  }

  #mayHaveLost(engine: Engine): boolean {
    return engine.gone || engine.store.silentUntilUs > 0
  }

  // ------------------------------------------------------------------------------- what was committed

  #apply(change: Change, nowUs: number): void {
    const spec = this.#specs.get((JSON.parse(change.input) as { n: number }).n)!
    const job = this.#jobs.get(change.seq)
    if (change.from === null || !job) {
      this.#jobs.set(change.seq, {
        seq: change.seq,
        id: change.id,
        spec,
        state: change.to,
        attempt: 0,
        due: change.due,
        run: null,
        startedUs: 0,
        leaseEndUs: 0,
        sinceUs: nowUs,
        createdUs: nowUs,
        runs: 0,
      })
      const series = [...this.#series.values()].find((each) => each.spec.n === spec.n)
      if (series && change.occurs !== null) {
        series.jobs.add(change.seq)
        this.#occur(series.spec.name, { dueMs: change.occurs / 1000, kind: 'fired' })
      }
      for (const use of spec.uses) this.#bucket(use.limit.name, use.key)
      return
    }
    const waits = change.from === SCHEDULED || change.from === AVAILABLE || change.from === RETRYABLE
    if (waits && change.to === change.from) {
      if (change.input !== change.inputBefore) {
        if (spec.unique?.onConflict !== 'update')
          this.#note(`job ${job.spec.n} was changed into job ${spec.n}, which did not ask for it`)
        for (const use of spec.uses) this.#bucket(use.limit.name, use.key)
        job.spec = spec
      } else if (job.sinceUs < nowUs) this.#note(`the row of job ${spec.n} was rewritten while it waited`)
      // The rows of one arrival may take two statements.
      job.due = change.due
      return
    }
    if (change.from !== job.state) this.#note(`job ${spec.n} left state ${change.from}, but it was in ${job.state}`)
    if (change.to === ACTIVE) this.#applyStart(job, change, nowUs)
    else if (change.from === ACTIVE) this.#applyEnd(job, change, nowUs)
    else if (change.to === DISCARDED && nowUs <= (this.#latest.get(spec.n) ?? Infinity))
      this.#note(`job ${spec.n} was given up at ${nowUs}, before it had to start`)
    else if (change.to === CANCELLED && !this.#cancelled.has(job.seq)) this.#endWaiting(job)
    job.state = change.to
    job.due = change.due
    job.sinceUs = nowUs
  }

  /** A job that waits is cancelled by another one that takes its place, or for its series, when it comes too late to be part of it. */
  #endWaiting(job: Ledger): void {
    this.#replaced.add(job.seq)
    const series = [...this.#series.values()].find((each) => each.jobs.has(job.seq))
    if (!series) return
    if (!series.spec.mayBeLate) this.#note(`job ${job.spec.n} of ${series.spec.name} was skipped without a reason`)
    series.runs--
    series.resume(this.#file.schedule(series.spec.name)?.dueUs ?? null)
  }

  #applyStart(job: Ledger, change: Change, nowUs: number): void {
    if (change.attempt !== job.attempt + 1)
      this.#note(`job ${job.spec.n} starts attempt ${change.attempt} after attempt ${job.attempt}`)
    if (change.attempt > this.#scenario.attempts)
      this.#note(`job ${job.spec.n} starts attempt ${change.attempt} of ${this.#scenario.attempts}`)
    const startUs = change.started ?? nowUs
    if (startUs > (this.#latest.get(job.spec.n) ?? Infinity) + READING_US)
      this.#note(`job ${job.spec.n} starts at ${startUs}, after it has expired`)
    job.attempt = change.attempt
    job.run = `${job.seq}:${change.attempt}`
    job.startedUs = startUs
    job.leaseEndUs = startUs + this.#scenario.leaseMs * 1000
    job.runs++
    for (const { name, bucket, units } of this.#needs(job, change.attempt)) {
      const admitUs = bucket.admitAt(startUs, units)
      // Of instants that were granted in another order the whole log tells, at the end.
      const isRefused = this.#looksAhead ? admitUs === Infinity || bucket.isClosed(startUs) : admitUs > startUs
      if (isRefused)
        this.#note(`job ${job.spec.n} starts at ${startUs}, but ${name} admits ${units} only at ${admitUs}`)
      bucket.charge(startUs, units)
      bucket.holders.add(job.run)
      if (units > 0) {
        const starts = this.#starts.get(name) ?? []
        this.#starts.set(name, starts)
        starts.push({ atUs: startUs, units, span: bucket.span })
      }
    }
  }

  #applyEnd(job: Ledger, change: Change, nowUs: number): void {
    const run = job.run!
    const settlement = this.#settlements.get(run)
    for (const { bucket } of this.#needs(job, job.attempt)) bucket.holders.delete(run)
    const back = this.#released.get(run)
    if (back) {
      for (const { name, bucket, units } of this.#needs(job, job.attempt)) {
        bucket.refund(job.startedUs, units)
        const starts = this.#starts.get(name)
        const at = starts?.findLastIndex((each) => each.atUs === job.startedUs && each.units === units) ?? -1
        if (starts && at >= 0) starts.splice(at, 1)
      }
      job.runs--
    } else if (settlement) {
      if (settlement.kind === 'push-back' && settlement.limit !== null)
        this.#bucket(settlement.limit, settlement.key).close(nowUs, nowUs + settlement.closedForUs)
      if (change.to === COMPLETED && !this.#returned.has(run))
        this.#note(`job ${job.spec.n} is completed, but run ${run} did not return`)
      if (
        change.to === DISCARDED &&
        settlement.kind === 'discard' &&
        job.attempt < this.#scenario.attempts &&
        settlement.error.message.includes('Error: ') &&
        !settlement.error.message.startsWith('NonRetryable')
      )
        this.#note(`job ${job.spec.n} was discarded after attempt ${job.attempt} of ${this.#scenario.attempts}`)
    } else {
      this.#lost++
      if (nowUs < job.leaseEndUs)
        this.#note(`run ${run} was taken back at ${nowUs}, its lease ends at ${job.leaseEndUs}`)
      if (change.to === DISCARDED && job.attempt < this.#scenario.attempts)
        this.#note(
          `job ${job.spec.n} was discarded with its lease after attempt ${job.attempt} of ${this.#scenario.attempts}`,
        )
    }
    const uncharged = back !== undefined || settlement?.kind === 'push-back' || settlement?.kind === 'give-back'
    const expected = uncharged ? job.attempt - 1 : job.attempt
    if (change.attempt !== expected)
      this.#note(`job ${job.spec.n} counts ${change.attempt} attempts after run ${run}, ${expected} expected`)
    if (change.to === CANCELLED && !this.#cancelled.has(job.seq))
      this.#note(`job ${job.spec.n} was cancelled by nobody`)
    job.attempt = change.attempt
    job.run = null
    this.#settlements.delete(run)
    this.#released.delete(run)
  }

  // ------------------------------------------------------------------------------------ the reference

  #bucket(limitName: string, key: string): ReferenceBucket {
    const name = `${limitName}:${key}`
    let bucket = this.#buckets.get(name)
    if (!bucket) {
      this.#buckets.set(name, (bucket = new ReferenceBucket(this.#standing.get(limitName)!.inForce(key))))
      this.#unborn.set(name, bucket)
    }
    return bucket
  }

  /** The units that a start of the job costs, and where: its own limits and its queue's. */
  #needs(job: Ledger, attempt: number): { name: string; bucket: ReferenceBucket; units: number }[] {
    // A queue's own limits do not look at the job: they are paid by every start of the queue.
    return [
      ...job.spec.uses.map((use) => this.#need(use, attempt)),
      ...this.#queueUses(job.spec.queue).map((use) => this.#need(use, 1)),
    ]
  }

  #need(use: Use, attempt: number): { name: string; bucket: ReferenceBucket; units: number } {
    const bucket = this.#bucket(use.limit.name, use.key)
    return {
      name: `${use.limit.name}:${use.key}`,
      bucket,
      units: attempt > 1 && bucket.policy.freeRetries ? 0 : bucket.policy.rule?.kind === 'spacing' ? 1 : use.weight,
    }
  }

  #queueUses(queue: string): readonly Use[] {
    return this.#scenario.queues.find((each) => each.name === queue)?.uses ?? []
  }

  #free(engine: Engine, queue: string): number {
    const spec = this.#scenario.queues.find((each) => each.name === queue)
    if (engine.gone || !spec?.servedBy.includes(engine.place)) return 0
    let free = spec.concurrency
    for (const each of engine.running.values()) if (each.queue === queue) free--
    for (const each of this.#held.values()) if (each.engine === engine && each.queue === queue) free--
    return free
  }

  // --------------------------------------------------------------------------------------- promises

  /**
   * While a slot is free, no head waits that all its buckets admit and that no lane ahead in its wait lists holds back.
   */
  #checkConserving(nowUs: number): void {
    const lanes = new Map(this.#file.lanes().map((lane) => [lane.id, lane]))
    const heads = this.#heads(lanes)
    const could = new Set<string>()
    this.#nextTryUs = Math.min(Infinity, ...[...this.#standing.values()].map((each) => each.nextEndUs))
    for (const waiting of heads) {
      const { head } = waiting
      if (!this.#engines.some((engine) => this.#free(engine, head.spec.queue) > 0)) continue
      let admitUs = nowUs
      for (const { bucket, units } of this.#needs(head, head.attempt + 1))
        admitUs = Math.max(admitUs, bucket.admitAt(nowUs, units))
      if (admitUs === Infinity || this.#needs(head, 1).some(({ bucket }) => !bucket.exact)) continue
      if (admitUs > nowUs) {
        this.#nextTryUs = Math.min(this.#nextTryUs, admitUs)
        continue
      }
      if (this.#isBehind(waiting, heads, nowUs)) continue
      this.#late(
        `job ${head.spec.n} waits, although everything admits it and a slot is free`,
        `${head.seq}:${head.attempt}`,
        nowUs,
        could,
      )
    }
    this.#checkDue(nowUs, could)
    this.#checkSeries(nowUs, could)
    for (const key of this.#couldSince.keys()) if (!could.has(key)) this.#couldSince.delete(key)
  }

  /** Scheduled and retryable jobs whose time has come move on while a slot is free. */
  #checkDue(nowUs: number, could: Set<string>): void {
    const wallUs = Math.round(this.#clock.now() * 1000)
    const anyFree = this.#scenario.queues.some(({ name }) => this.#engines.some((each) => this.#free(each, name) > 0))
    for (const job of this.#jobs.values()) {
      const leftToStartUs = (this.#latest.get(job.spec.n) ?? Infinity) + READING_US - nowUs
      if (job.state === AVAILABLE && leftToStartUs < Infinity && anyFree) {
        if (leftToStartUs > 0) this.#nextTryUs = Math.min(this.#nextTryUs, nowUs + leftToStartUs)
        else this.#late(`job ${job.spec.n} has expired and still waits`, `expired ${job.seq}`, nowUs, could)
      }
      if (job.state !== SCHEDULED && job.state !== RETRYABLE) continue
      if (job.due === null || !this.#engines.some((engine) => this.#free(engine, job.spec.queue) > 0)) continue
      const leftUs = job.due - (job.state === SCHEDULED ? wallUs : nowUs)
      if (leftUs > 0) this.#nextTryUs = Math.min(this.#nextTryUs, nowUs + leftUs)
      else if (job.state === SCHEDULED && nowUs - this.#steppedUs <= POLL_US)
        this.#nextTryUs = Math.min(this.#nextTryUs, this.#steppedUs + POLL_US + 1)
      else
        this.#late(`job ${job.spec.n} is due since ${-leftUs} µs and was not moved on`, `due ${job.seq}`, nowUs, could)
    }
  }

  /** No occurrence is lost: while a worker is live, each becomes a job or is skipped for a reason when it is due. */
  #checkSeries(nowUs: number, could: Set<string>): void {
    if (!this.#engines.some((engine) => !engine.gone)) return
    for (const [name, series] of this.#series) {
      const leftUs = series.leftUs(this.#clocks())
      if (leftUs === null) continue
      if (leftUs > 0) this.#nextTryUs = Math.min(this.#nextTryUs, nowUs + leftUs)
      else if (series.spec.kind === 'cron' && nowUs - this.#steppedUs <= POLL_US)
        this.#nextTryUs = Math.min(this.#nextTryUs, this.#steppedUs + POLL_US + 1)
      else if (!(series.held && [...series.jobs].some((seq) => !isOver(this.#jobs.get(seq)!.state))))
        this.#late(`${name} was due ${-leftUs} µs ago, and nothing has come of it`, `series ${name}`, nowUs, could)
    }
  }

  /** Where one engine is alone nothing may be late; others' commits are noticed a little later. */
  #late(what: string, key: string, nowUs: number, could: Set<string>): void {
    const sinceUs = this.#couldSince.get(key) ?? nowUs
    this.#couldSince.set(key, sinceUs)
    could.add(key)
    let untilUs = this.#looksAhead ? sinceUs + AHEAD_US : sinceUs
    if (this.#companyUs > sinceUs - COMPANY_US) {
      // One engine may have to move a lane to another line before a second one can see that the way is free.
      untilUs += 2 * NOTICE_US
      if (nowUs < this.#joinedUs + COMPANY_US + NOTICE_US)
        untilUs = Math.max(untilUs, this.#joinedUs + COMPANY_US + NOTICE_US)
    }
    if (nowUs >= untilUs && (untilUs === sinceUs || nowUs > untilUs))
      this.#fail(`${what} (since ${sinceUs}, now ${nowUs})`)
    this.#nextTryUs = Math.min(this.#nextTryUs, untilUs + 1)
  }

  #heads(lanes: ReadonlyMap<number, LaneRow>): Waiting[] {
    const heads = new Map<string, Waiting>()
    const laneOf = this.#file.laneOfWaiting()
    for (const job of this.#jobs.values()) {
      if (job.state !== AVAILABLE) continue
      const number = laneOf.get(job.seq)
      if (number === undefined) {
        this.#fail(`job ${job.spec.n} is available in the log, but not in the table`)
        continue
      }
      const key = String(number)
      const known = heads.get(key)
      if (known && goesBefore(known.head, job)) continue
      heads.set(key, { lane: lanes.get(number) ?? null, head: job })
    }
    return [...heads.values()]
  }

  /** Whether a lane that ranks before it stands in the line of one of its buckets, and that bucket really has nothing for that lane. */
  #isBehind({ lane, head }: Waiting, heads: readonly Waiting[], nowUs: number): boolean {
    if (!lane) return false
    const buckets = this.#file.buckets()
    const live = this.#file.liveQueues(nowUs)
    const ahead = heads.filter(
      (other) =>
        other.lane?.state === 2 &&
        other.lane !== lane &&
        lane.buckets.includes(other.lane.bucket ?? -1) &&
        ranksBefore(other, { lane, head }),
    )
    return this.#engines
      .filter((engine) => this.#free(engine, head.spec.queue) > 0)
      .every((engine) => {
        // A queue that others serve counts as able to start: whether it is full there is known to them alone.
        const canStart = (queue: string): boolean =>
          this.#serves(engine, queue) ? this.#free(engine, queue) > 0 : live.has(queue)
        return ahead.some((other) => {
          const { queue } = other.head.spec
          if (!canStart(queue) || isHeld(other, heads, canStart)) return false
          if (!this.#serves(engine, queue)) return true
          const name = buckets.get(other.lane?.bucket ?? -1)?.name
          const need = this.#needs(other.head, other.head.attempt + 1).find((each) => each.name === name)
          return need !== undefined && need.bucket.admitAt(nowUs, need.units) > nowUs
        })
      })
  }

  #serves(engine: Engine, queue: string): boolean {
    return this.#scenario.queues.some((each) => each.name === queue && each.servedBy.includes(engine.place))
  }

  /** A run whose lease is over is taken back within a probe's time, if a worker is there to do it. */
  #checkRecovery(nowUs: number): void {
    const helpers = this.#engines.some((engine) => !engine.gone)
    for (const job of this.#jobs.values()) {
      if (job.state !== ACTIVE || !helpers) continue
      if (nowUs <= Math.max(job.leaseEndUs, this.#joinedUs) + RECOVER_EVERY_US + NOTICE_US) continue
      this.#fail(`job ${job.spec.n} is still active ${nowUs - job.leaseEndUs} µs after its lease was over`)
    }
  }

  #left(): Ledger[] {
    return [...this.#jobs.values()].filter(({ state }) => !isOver(state))
  }

  #checkEnd(): void {
    for (const [name, starts] of this.#starts) {
      for (const [span, policy] of this.#buckets.get(name)!.policies.entries()) {
        const broken = brokenBudget(
          policy,
          starts.filter((each) => each.span === span).sort((a, b) => a.atUs - b.atUs),
        )
        if (broken !== null) this.#fail(`${name}: ${broken}`)
      }
    }
    for (const job of this.#jobs.values())
      if (job.state === CANCELLED && !this.#cancelled.has(job.seq) && !this.#replaced.has(job.seq))
        this.#fail(`job ${job.spec.n} was cancelled by nobody`)
    for (const [id, { name, active }] of this.#file.buckets())
      if (active !== 0) this.#fail(`bucket ${id} (${name}) counts ${active} permits, but nothing runs`)
  }

  /** Remembers the first thing that is wrong where throwing would only be caught by the engine. */
  #note(what: string): void {
    this.#failure ??= new BrokenPromise(`${what}\n${this.#replay()}`)
  }

  #fail(what: string): never {
    throw this.#failure ?? new BrokenPromise(`${what}\n${this.#replay()}`)
  }

  #replay(): string {
    return `replay ${this.#looksAhead ? 'ahead ' : ''}with: SLUICE_SEED=${this.#scenario.seed} npx vitest run test/simulation`
  }
}

function isOver(state: number): boolean {
  return state === COMPLETED || state === CANCELLED || state === DISCARDED
}

function goesBefore(a: Ledger, b: Ledger): boolean {
  return a.spec.priority > b.spec.priority || (a.spec.priority === b.spec.priority && a.seq < b.seq)
}

/** Whether a deputy of its line, of a queue that can start something, waits elsewhere on its behalf. */
function isHeld(waiting: Waiting, heads: readonly Waiting[], canStart: (queue: string) => boolean): boolean {
  const { lane } = waiting
  if (!lane || lane.deputyOf !== null) return false
  return heads.some(
    (deputy) =>
      deputy.lane !== null &&
      deputy.lane.deputyOf === lane.bucket &&
      deputy.lane.bucket !== null &&
      deputy.lane.bucket !== lane.bucket &&
      lane.buckets.includes(deputy.lane.bucket) &&
      canStart(deputy.head.spec.queue) &&
      ranksBefore(deputy, waiting),
  )
}

function ranksBefore(a: Waiting, b: Waiting): boolean {
  if (a.head.spec.priority !== b.head.spec.priority) return a.head.spec.priority > b.head.spec.priority
  const turns = (a.lane?.turn ?? 0) - (b.lane?.turn ?? 0)
  return turns === 0 ? a.head.seq < b.head.seq : turns < 0
}
