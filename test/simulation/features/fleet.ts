// Runs one plan through the public API in virtual time, and holds every instant of it against the model.
import { call, input, limit, type Limit, RateLimited, silentLogger, Sluice, task } from '../../../src/exports/index.ts'
import type { Context, EnqueueOptions, Task } from '../../../src/engine/define/task.ts'
import { seededRandom } from '../../../src/base/random.ts'
import type { Clock } from '../../../src/base/clock.ts'
import type { Store } from '../../../src/store/contract/store.ts'
import { createManualClock, type ManualClock } from '../../../src/testing/manual-clock.ts'
import { Draw } from '../scenario.ts'
import { type Life, MortalClock, mortalStore } from './mortal.ts'
import { ModelBucket, SLACK_US } from './model.ts'
import {
  type Act,
  type JobPlan,
  type LimitPlan,
  PLAIN_CODE,
  type Plan,
  planOf,
  type QueuePlan,
  type UsePlan,
} from './plan.ts'

/** No process dies alone, and a job that keeps a lease would run all through the windows of a calendar. */
const LEASE_MS = { alone: 3_600_000, inCompany: 2000 }
/** How long other processes' commits, deaths and arrivals may go unnoticed, µs. */
const COMPANY_US = 8_000_000
const HOUR_US = 3_600e6
/** How long after a start the next one begins, or everything has ended, µs. */
const END_US = { alone: 24 * HOUR_US, inCompany: 120e6 }
/** How long a job of another worker goes first, a few times, µs. */
const PRECEDENCE_US = 250_000
/** How far the told delay may be from that of the model, which rounds each start of a queue, µs. */
const DELAY_SLACK_US = 100
/** More than all steps that a plan's jobs can age. */
const TIER = 2 ** 40
const ACTIVE = new Set(['active', 'ending'])

interface ModelJob extends JobPlan {
  readonly lane: string
  readonly seq: number
  id: string
  state: 'pending' | 'scheduled' | 'available' | 'active' | 'ending' | 'retryable' | 'over'
  /** The value by which it is ordered, higher first. */
  level: number
  sinceUs: number
  dueUs: number
  attempt: number
  runs: number
  pushedBack: number
  engine: Engine | null
  next: (() => void) | null
  flow: ModelFlow | null
  /** Its process died with it: it comes back when its lease is over. */
  lostUs: number | null
}

interface ModelFlow {
  readonly kind: 'chain' | 'group' | 'batch'
  readonly jobs: readonly ModelJob[]
  readonly callback: ModelJob | null
}

interface Engine {
  readonly life: Life
  readonly sluice: Sluice
  readonly work: Work
  readonly limits: ReadonlyMap<string, Limit>
  readonly running: Map<string, number>
}

type Work = Task<{ n: number }, { n: number }, unknown>

/** Makes a store for one engine of the plan: all of them share what is kept. */
export type MakeStore = (clock: Clock, ageingUs: number | null) => Store

/** The events of a run. */
export interface Seen {
  readonly jobs: number
  readonly starts: number
  readonly rejected: number
  readonly crashes: number
  /** Starts within a guaranteed share. */
  readonly assured: number
  /** Starts that limits in shadow mode would have delayed. */
  readonly shadowed: number
  /** Calls of plain code that were granted. */
  readonly tickets: number
}

/** Runs the plan of one seed. @throws Error that says which rule was broken, and when */
export async function simulateFeatures(seed: number, makeStore: MakeStore): Promise<Seen> {
  return new Features(planOf(seed), makeStore).run()
}

class Features {
  readonly #plan: Plan
  readonly #makeStore: MakeStore
  readonly #clock: ManualClock
  readonly #beganUs: number
  readonly #buckets = new Map<string, ModelBucket>()
  readonly #jobs = new Map<number, ModelJob>()
  readonly #byId = new Map<string, ModelJob>()
  /** The news of engines on jobs whose call has not been answered yet. */
  readonly #early = new Map<string, (() => void)[]>()
  readonly #engines: Engine[] = []
  /** Jobs of flows that went at this instant, before the end of what they waited for was heard. */
  readonly #unheard = new Set<ModelJob>()
  /** Since when a head could have started. */
  readonly #couldSince = new Map<number, number>()
  /** Starts of other lanes, by lane, since the head of a lane could have started but for a slot. */
  readonly #passed = new Map<string, Map<string, number>>()
  readonly #problems: string[] = []
  /** Something was given back at this instant: in which order it was, and who started before it, cannot be told. */
  #stirred = false
  #lastLookUs = -1
  /** The last start. */
  #startedUs = 0
  #seq = 0
  #crashes = 0
  #rejected = 0
  #assured = 0
  #tickets = 0
  /** The delays that limits in shadow mode told at this instant, and those that the model expects, in µs. */
  readonly #told = new Map<string, number>()
  readonly #expected = new Map<string, number>()
  #shadowed = 0
  /** Starts of this instant outside the share of a bucket, while a job within its own waited for that bucket. */
  #overtakes: { readonly bucket: ModelBucket; readonly by: ModelJob; readonly waiting: ModelJob }[] = []
  /** The units of a common limit that starts within shares took at this instant. */
  readonly #assuredNow = new Map<ModelBucket, number>()
  /** The buckets that plain code has asked. */
  readonly #ofPlainCode = new Set<ModelBucket>()
  /** The units that others leave in common limits. */
  readonly #reserves: ReadonlyMap<LimitPlan, number>
  #actsLeft: number

  constructor(plan: Plan, makeStore: MakeStore) {
    this.#plan = plan
    this.#makeStore = makeStore
    this.#clock = createManualClock({ start: plan.start })
    this.#beganUs = this.#nowUs()
    this.#actsLeft = plan.acts.length
    this.#reserves = reservesOf(plan.limits)
  }

  async run(): Promise<Seen> {
    try {
      for (let i = 0; i < this.#plan.engines; i++) await this.#join()
      await this.#clock.advance(0)
      const fromUs = this.#nowUs()
      for (const act of this.#plan.acts) {
        await this.#until(fromUs + act.atUs)
        await this.#act(act)
        this.#actsLeft--
        await this.#clock.advance(0)
        this.#look()
        this.#expectKept()
      }
      const restUs = this.#plan.engines > 1 ? END_US.inCompany : END_US.alone
      this.#startedUs = this.#nowUs()
      // Windows of days outlast what a test has time for: what waits for the next of them is left.
      const hasDays = this.#plan.limits.some(({ rules }) => rules.some((rule) => rule.kind === 'calendar'))
      const leaveUs = hasDays ? fromUs + 2 * HOUR_US : Infinity
      while (!this.#isOver() && this.#nowUs() <= leaveUs) {
        const endUs = this.#startedUs + restUs
        await this.#until(Math.min(this.#nowUs() + HOUR_US, endUs + 1))
        if (this.#nowUs() > this.#startedUs + restUs)
          this.#fail(
            `never ended: ${this.#left()
              .map((job) => `${job.n} ${job.state}`)
              .join(', ')}`,
          )
        this.#expectKept()
      }
      for (const bucket of this.#buckets.values()) {
        const wrong = bucket.broken()
        if (wrong !== null) this.#fail(`over budget: ${wrong}`)
      }
      this.#expectKept()
    } finally {
      await this.#stop()
    }
    const starts = [...this.#jobs.values()].reduce((sum, job) => sum + job.runs, 0)
    const [assured, shadowed, tickets] = [this.#assured, this.#shadowed, this.#tickets]
    return {
      jobs: this.#jobs.size,
      starts,
      rejected: this.#rejected,
      crashes: this.#crashes,
      assured,
      shadowed,
      tickets,
    }
  }

  // ---------------------------------------------------------------------------------------- engines

  async #join(): Promise<void> {
    const life = { dead: false }
    const { ageingMs } = this.#plan
    const clock = new MortalClock(this.#clock, life)
    const limits = limitsOf(this.#plan.limits)
    const running = new Map(this.#plan.queues.map(({ name }) => [name, 0]))
    const work: Work = task('work', input<{ n: number }>(), {
      retry: { attempts: this.#plan.attempts, backoff: 'fixed', initial: this.#plan.retryMs, jitter: false },
      run: ({ n }, ctx) => this.#handle(engine, this.#jobs.get(n) as ModelJob, ctx),
    })
    const sluice = new Sluice({
      store: mortalStore(this.#makeStore(clock, ageingMs === null ? null : ageingMs * 1000), life),
      tasks: [work],
      limits: [...limits.values()],
      queues: Object.fromEntries(
        this.#plan.queues.map(({ name, concurrency, uses }) => [
          name,
          {
            concurrency,
            ...(uses.length > 0 ? { limits: uses.map((use) => limits.get(use.limit.name) as Limit) } : {}),
          },
        ]),
      ),
      clock,
      lease: this.#plan.engines > 1 ? LEASE_MS.inCompany : LEASE_MS.alone,
      logger: { ...silentLogger, error: (about: object, text?: string) => this.#complain(life, about, text) },
      random: seededRandom(this.#plan.seed),
    })
    const engine: Engine = { life, sluice, work, limits, running }
    this.#listen(sluice)
    this.#engines.push(engine)
    await sluice.start()
  }

  #complain(life: Life, about: object, text = ''): void {
    const { err } = about as { err?: Error }
    if (!life.dead && !/discarded|failed/.test(text)) this.#fail(`an engine complains: ${text}: ${err?.stack ?? ''}`)
  }

  #listen(sluice: Sluice): void {
    sluice.on('job.completed', ({ id }) => this.#hear(id, (job) => this.#end(job, true)))
    sluice.on('rate_limit.shadow', ({ id, limit: name, key, delayMs }) => {
      this.#told.set(`${id} ${name}:${key ?? ''}`, delayMs === null ? Infinity : delayMs * 1000)
    })
    sluice.on('job.cancelled', ({ id }) => this.#hear(id, (job) => this.#end(job, false)))
    sluice.on('job.discarded', ({ id, error }) =>
      this.#hear(id, (job) => {
        if (error.name === 'RateLimitRejected') this.#reject(job, error as Error & { expectedStart?: Date | null })
        this.#end(job, false)
      }),
    )
  }

  #hear(id: string, what: (job: ModelJob) => void): void {
    const job = this.#byId.get(id)
    if (job) what(job)
    else this.#early.set(id, [...(this.#early.get(id) ?? []), () => what(this.#byId.get(id) as ModelJob)])
  }

  #name(job: ModelJob, id: string): void {
    Object.assign(job, { id })
    this.#byId.set(id, job)
    for (const told of this.#early.get(id) ?? []) told()
    this.#early.delete(id)
  }

  get #living(): Engine[] {
    return this.#engines.filter(({ life }) => !life.dead)
  }

  async #stop(): Promise<void> {
    const stopped = new Set<Engine>()
    for (const engine of this.#living)
      void engine.sluice
        .stop({ within: 0 })
        .catch(() => undefined)
        .then(() => stopped.add(engine))
    for (let i = 0; i < 30 && stopped.size < this.#living.length; i++) await this.#clock.advance('1s')
  }

  // ------------------------------------------------------------------------------------------- acts

  async #act(act: Act): Promise<void> {
    const [engine] = this.#living
    if (!engine) return
    if (act.kind === 'enqueue') {
      const job = this.#add(act.job, act.job.delayMs > 0 ? 'scheduled' : 'available', null)
      this.#name(job, (await engine.work.enqueue({ n: job.n }, this.#options(engine, job))).id)
    } else if (act.kind === 'acquire') this.#acquire(this.#living[act.engine % this.#living.length] ?? engine, act)
    else if (act.kind === 'flow') await this.#startFlow(engine, act)
    else if (act.kind === 'cancel') {
      const waiting = this.#left().filter(
        (job) => job.queue !== PLAIN_CODE && ['available', 'scheduled', 'retryable'].includes(job.state),
      )
      const job = waiting[act.pick % waiting.length]
      if (!job || job.id === '' || job.lostUs !== null) return
      await engine.sluice.jobs.cancel(job.id)
      this.#end(job, false)
    } else if (this.#living.length > 1) {
      this.#crashes++
      engine.life.dead = true
      for (const job of this.#jobs.values()) {
        if (job.engine !== engine) continue
        // The permits of plain code return with their lease.
        if (job.queue === PLAIN_CODE) Object.assign(job, { lostUs: this.#nowUs(), state: 'over' })
        else if (ACTIVE.has(job.state)) Object.assign(job, { lostUs: this.#nowUs() })
      }
      await this.#join()
    }
  }

  /** A call of plain code: a ticket in the wait lists, if it has to wait. */
  #acquire(engine: Engine, { ticket, holdMs }: Extract<Act, { kind: 'acquire' }>): void {
    const job = this.#add(ticket, 'available', null)
    Object.assign(job, { engine, lane: `${this.#engines.indexOf(engine)} ${job.lane}`, id: `ticket ${ticket.n}` })
    for (const use of ticket.uses) this.#ofPlainCode.add(this.#bucket(use))
    const uses = this.#usesIn(engine, ticket)
    const work = async (): Promise<void> => {
      const permit = await engine.sluice.limits.acquire(uses, { priority: ticket.priority })
      if (engine.life.dead) return
      this.#tickets++
      this.#start(engine, job, 1)
      if (holdMs > 0) await this.#clock.sleep(holdMs)
      if (engine.life.dead) return
      this.#finish(engine, job)
      await permit.release()
      this.#end(job, true)
    }
    work().catch((error: unknown) => {
      if (!engine.life.dead && this.#actsLeft >= 0) this.#fail(`ticket ${ticket.n} is refused: ${String(error)}`)
    })
  }

  async #startFlow(engine: Engine, { flow, jobs, callback }: Extract<Act, { kind: 'flow' }>): Promise<void> {
    const all = jobs.map((each) => this.#add(each, 'pending', null))
    const last = flow === 'batch' ? this.#add(callback, 'pending', null) : null
    const made: ModelFlow = { kind: flow, jobs: all, callback: last }
    for (const job of [...all, ...(last ? [last] : [])]) Object.assign(job, { flow: made })
    const calls = all.map((job) => call(engine.work, { n: job.n }, this.#options(engine, job)))
    const started = await engine.sluice.flows.start(
      flow === 'chain'
        ? { kind: flow, steps: calls }
        : flow === 'group'
          ? { kind: flow, jobs: calls }
          : {
              kind: flow,
              jobs: calls,
              callbacks: {
                onComplete: call(engine.work, { n: (last as ModelJob).n }, this.#options(engine, last as ModelJob)),
              },
            },
    )
    for (const job of flow === 'chain' ? all.slice(0, 1) : all) this.#ready(job)
    for (const [i, { id }] of started.jobs.entries()) this.#name(all[i] as ModelJob, id)
    if (!last) return
    const stored = (await engine.sluice.flows.jobs(started.id)).find(
      (each) => (each.input as { n: number }).n === last.n,
    )
    if (stored) this.#name(last, stored.id)
  }

  #add(plan: JobPlan, state: ModelJob['state'], flow: ModelFlow | null): ModelJob {
    const nowUs = this.#nowUs()
    const job: ModelJob = {
      ...plan,
      lane: laneOf(plan),
      seq: this.#seq++,
      id: '',
      state,
      level: this.#levelOf(plan, nowUs + plan.delayMs * 1000),
      sinceUs: nowUs + plan.delayMs * 1000,
      dueUs: nowUs + plan.delayMs * 1000,
      attempt: 0,
      runs: 0,
      pushedBack: 0,
      engine: null,
      next: null,
      flow,
      lostUs: null,
    }
    this.#jobs.set(job.n, job)
    return job
  }

  #options(engine: Engine, job: JobPlan): EnqueueOptions<{ n: number }> {
    return {
      queue: job.queue,
      priority: job.priority,
      limits: this.#usesIn(engine, job),
      ...(job.delayMs > 0 ? { delay: job.delayMs } : {}),
      ...(job.fairKey === null ? {} : { fairKey: job.fairKey }),
      ...(job.share === 1 ? {} : { share: job.share }),
    }
  }

  #usesIn(engine: Engine, { uses }: JobPlan): ReturnType<Limit['key']>[] {
    const named = uses.filter(({ implied }) => !implied)
    return named.map(({ limit: used, key, weight }) => {
      const found = engine.limits.get(used.name) as Limit
      return used.keyed ? found.key(key, { weight }) : found.weight(weight)
    })
  }

  // ------------------------------------------------------------------------------------------- runs

  async #handle(engine: Engine, job: ModelJob, ctx: Context<{ n: number }>): Promise<unknown> {
    this.#start(engine, job, ctx.attempt)
    const draw = new Draw(seededRandom(this.#plan.seed * 7919 + job.n * 104_729 + job.runs * 1_299_709))
    const { long, failing, refused, attempts, retryMs } = this.#plan
    const lastsMs = draw.chance(0.3)
      ? 0
      : long && draw.chance(0.2)
        ? draw.int(500, 6000)
        : draw.int(1, 200) + draw.int(0, 999) / 1000
    const fails = draw.chance(failing)
    const isRefused = draw.chance(refused)
    if (lastsMs > 0) await this.#clock.sleep(lastsMs)
    if (engine.life.dead || job.engine !== engine || job.attempt !== ctx.attempt) return new Promise(() => undefined)
    this.#finish(engine, job)
    const use = job.uses[job.runs % Math.max(1, job.uses.length)]
    if (fails) {
      const dueUs = this.#nowUs() + retryMs * 1000
      if (ctx.attempt < attempts)
        job.next = (): void =>
          void Object.assign(job, { state: retryMs > 0 ? 'retryable' : 'available', dueUs, sinceUs: dueUs })
      throw new Error('as planned')
    }
    if (isRefused && use && job.pushedBack < 5) {
      const ms = draw.int(1, 900)
      job.pushedBack++
      job.next = (): void => {
        this.#bucket(use).close(this.#nowUs(), this.#nowUs() + ms * 1000)
        Object.assign(job, { state: 'available', attempt: job.attempt - 1, sinceUs: this.#nowUs() })
      }
      throw new RateLimited({ retryAfter: ms, limit: use.limit.name, ...(use.limit.keyed ? { key: use.key } : {}) })
    }
    return null
  }

  #start(engine: Engine, job: ModelJob, attempt: number): void {
    const nowUs = this.#nowUs()
    if (job.lostUs !== null) this.#comeBack(job, nowUs)
    this.#comeDue(job, nowUs)
    if (job.state !== 'available') this.#fail(`job ${job.n} starts in state ${job.state}`)
    if (attempt !== job.attempt + 1) this.#fail(`job ${job.n} starts attempt ${attempt} after ${job.attempt}`)
    if (nowUs < job.sinceUs) this.#fail(`job ${job.n} starts before its time`)
    const lateUs = nowUs - job.sinceUs - boundOf(job)
    if (lateUs > SLACK_US) this.#fail(`job ${job.n} starts ${lateUs} µs after its maxWait`)
    for (const other of this.#waiting())
      if (other !== job && other.lane === job.lane && other.sinceUs < nowUs && goesBefore(other, job))
        this.#fail(`job ${job.n} starts before ${other.n} of its lane ${job.lane}`)
    const starts: [bucket: ModelBucket, units: number][] = []
    this.#noteOvertaken(job, nowUs)
    this.#noteRefused(nowUs)
    for (const use of this.#usesOf(job)) {
      const bucket = this.#bucket(use)
      const units = unitsOf(job, use)
      // Handlers begin in any order: the share of a start that began before may have been left for it.
      const kept = Math.max(0, this.#keptOf(job, use, nowUs) - (this.#assuredNow.get(bucket) ?? 0))
      const atUs = bucket.admitAt(nowUs, units, kept)
      const excused = this.#stirred || (atUs === Infinity && this.#mayHaveReturned(bucket))
      if (atUs > nowUs + SLACK_US && !excused)
        this.#fail(`job ${job.n} starts, but ${bucket.name} admits ${units} only ${atUs - nowUs} µs later`)
      starts.push([bucket, units])
      if (use.limit.share) this.#noteShare(bucket, units, nowUs)
      if (use.limit.shadow) this.#expectDelay(job, bucket, units, nowUs)
      if (use.limit.concurrency === null) continue
      if (bucket.holders.size + 1 > use.limit.concurrency && !this.#mayHaveReturned(bucket) && !use.limit.shadow)
        this.#fail(`${bucket.name} has ${bucket.holders.size + 1} at once`)
    }
    // The shares of a start are those that it found.
    const assured = job.uses.filter((use) => this.#isAssured(job, use, nowUs) !== false)
    for (const [bucket, units] of starts) {
      const isWithin = assured.some((use) => this.#bucket(use) === bucket)
      if (isWithin) this.#assuredNow.set(bucket, (this.#assuredNow.get(bucket) ?? 0) + units)
      bucket.start(nowUs, units)
    }
    for (const [bucket] of starts) if (bucket.limit.concurrency !== null) bucket.holders.add(job.n)
    this.#takeTurn(job, assured)
    this.#startedUs = nowUs
    Object.assign(job, { state: 'active', attempt, runs: job.runs + 1, engine })
    const atOnce = (engine.running.get(job.queue) ?? 0) + 1
    engine.running.set(job.queue, atOnce)
    if (atOnce > this.#slotsOf(job.queue)) this.#fail(`queue ${job.queue} runs ${atOnce} at once in one process`)
  }

  /**
   * Lanes of one level take turns: none has two of its turns while another that could have started has none. @param
   * assured the buckets in which the start was within its share: there it takes the turns of those that borrow
   */
  #takeTurn(job: ModelJob, assured: readonly UsePlan[]): void {
    this.#passed.delete(job.lane)
    if (this.#plan.engines > 1 || isUnlimited(job) || job.queue === PLAIN_CODE) return
    const heads = this.#heads()
    const others = heads.filter(({ lane }) => lane !== job.lane)
    if (assured.some((use) => others.some((head) => head.uses.some((own) => isSame(own, use))))) return
    const share = Math.max(
      ...[...this.#jobs.values()].filter(({ lane }) => lane === job.lane).map((each) => each.share),
    )
    for (const head of heads) {
      const passed = this.#passed.get(head.lane)
      if (!passed || head.queue !== job.queue || head.level !== job.level) continue
      const turns = (passed.get(job.lane) ?? 0) + 1
      passed.set(job.lane, turns)
      if (turns > 2 * share) this.#fail(`lane ${job.lane} starts ${turns} jobs, and job ${head.n} of ${head.lane} none`)
    }
  }

  /** A head that a budget refuses at the instant of a start, until a later one, was not passed over by this start. */
  #noteRefused(nowUs: number): void {
    for (const head of this.#heads()) {
      const atUs = this.#passed.has(head.lane) ? this.#admitAt(head, nowUs) : nowUs
      if (atUs > nowUs + SLACK_US && atUs !== Infinity) this.#passed.delete(head.lane)
    }
  }

  /** Counts a start within its share. While permits come and go at this instant, which starts were cannot be told. */
  #noteShare(bucket: ModelBucket, units: number, nowUs: number): void {
    if (bucket.limit.share?.concurrency !== null && (this.#stirred || this.#mayHaveReturned(bucket)))
      bucket.isUncertain = true
    if (bucket.isAssured(nowUs, units)) this.#assured++
  }

  /** Notes who is overtaken by a start outside the share of a common limit: a job within its own that waits for it. */
  #noteOvertaken(job: ModelJob, nowUs: number): void {
    if (this.#plan.engines > 1) return
    for (const use of this.#usesOf(job)) {
      const bucket = this.#bucket(use)
      if (this.#isAssured(job, use, nowUs) !== false || !this.#reserves.has(use.limit)) continue
      for (const waiting of this.#heads()) {
        const own = this.#usesOf(waiting).find((each) => isSame(each, use))
        if (waiting !== job && own && this.#isAssured(waiting, own, nowUs) && waiting.sinceUs < nowUs - SLACK_US)
          if (bucket.admitAt(nowUs, unitsOf(waiting, own), 0) <= nowUs)
            this.#overtakes.push({ bucket, by: job, waiting })
      }
    }
  }

  /** Notes by how much a limit in shadow mode would have delayed a start. A penalty of another side is left out. */
  #expectDelay(job: ModelJob, bucket: ModelBucket, units: number, nowUs: number): void {
    const delayUs = bucket.startInShadow(nowUs, units)
    if (delayUs > 0) this.#expected.set(`${job.id} ${bucket.name}`, delayUs)
  }

  #finish(engine: Engine, job: ModelJob): void {
    engine.running.set(job.queue, (engine.running.get(job.queue) ?? 0) - 1)
    for (const use of this.#usesOf(job)) this.#bucket(use).holders.delete(job.n)
    this.#stirred = true
    // It is settled at this instant, some turns of the event loop later.
    job.state = 'ending'
    job.next = null
    queueMicrotask(() => queueMicrotask(() => queueMicrotask(() => job.next?.())))
  }

  /** A lease is over: the run is lost, its permits are back. */
  #comeBack(job: ModelJob, nowUs: number): void {
    if (nowUs < (job.lostUs ?? 0) + SLACK_US) this.#fail(`job ${job.n} runs again before its lease can be over`)
    for (const use of this.#usesOf(job)) this.#bucket(use).holders.delete(job.n)
    Object.assign(job, { lostUs: null, state: 'available', sinceUs: nowUs })
  }

  /** A permit that a dead process held returns when its lease is over; the model is not told when. */
  #mayHaveReturned(bucket: ModelBucket): boolean {
    return [...bucket.holders].some((n) => this.#jobs.get(n)?.lostUs !== null)
  }

  #comeDue(job: ModelJob, nowUs: number): void {
    if ((job.state === 'scheduled' || job.state === 'retryable') && job.dueUs <= nowUs) job.state = 'available'
    if (job.state !== 'pending' || !job.flow) return
    // The store releases a job together with the end before it, but the process that wrote that end may report it later.
    if (!isReleased(job) && this.#plan.engines > 1) this.#unheard.add(job)
    if (isReleased(job) || this.#unheard.has(job)) this.#ready(job)
  }

  #ready(job: ModelJob): void {
    if (job.state !== 'pending') return
    const nowUs = this.#nowUs()
    Object.assign(job, { state: 'available', sinceUs: nowUs, level: this.#levelOf(job, nowUs) })
  }

  #end(job: ModelJob, completed: boolean): void {
    if (job.state === 'over') return
    if (job.lostUs !== null) for (const use of this.#usesOf(job)) this.#bucket(use).holders.delete(job.n)
    Object.assign(job, { state: 'over', lostUs: null })
    const { flow } = job
    if (!flow || job === flow.callback) return
    const after = flow.kind === 'chain' ? flow.jobs.slice(flow.jobs.indexOf(job) + 1) : []
    if (completed && after[0]) this.#ready(after[0])
    else if (!completed) for (const each of after) each.state = 'over'
    if (flow.callback && flow.jobs.every((each) => each.state === 'over')) this.#ready(flow.callback)
  }

  #reject(job: ModelJob, error: { expectedStart?: Date | null }): void {
    const nowUs = this.#nowUs()
    this.#rejected++
    // It came back when its lease was over, and the model is not told when: its deadline is unknown.
    const wasLost = job.lostUs !== null
    if (wasLost) this.#comeBack(job, nowUs)
    this.#comeDue(job, nowUs)
    if (job.state !== 'available') return this.#fail(`job ${job.n} is rejected in state ${job.state}`)
    const drops = job.uses.filter(({ limit: used }) => used.onLimit === 'drop' && !used.shadow)
    const deadlineUs = job.sinceUs + boundOf(job)
    if (drops.length === 0 && deadlineUs === Infinity)
      return this.#fail(`job ${job.n} is rejected, and no limit of it says so`)
    if (drops.length > 0 || wasLost || nowUs >= deadlineUs) return undefined
    const expectedUs = (error.expectedStart?.getTime() ?? Infinity) * 1000
    if (expectedUs + 1000 < deadlineUs) this.#fail(`job ${job.n} is rejected, though it is expected to start in time`)
    return undefined
  }

  // ------------------------------------------------------------------------------------------- looks

  /** Goes on from instant to instant: wherever a timer is due, and wherever the model says that something must start. */
  async #until(untilUs: number): Promise<void> {
    let modelUs = Infinity
    for (;;) {
      const nowUs = this.#nowUs()
      const timerMs = this.#clock.next()
      const timerUs = timerMs === null ? Infinity : Math.max(0, Math.ceil(timerMs * 1000 - 1e-3))
      const byUs = Math.min(untilUs - nowUs, timerUs, Math.max(0, modelUs - nowUs))
      await this.#clock.advance(byUs / 1000)
      modelUs = this.#look()
      if (modelUs <= this.#nowUs()) modelUs = this.#nowUs() + 1000
      this.#expectKept()
      if (byUs >= untilUs - nowUs || this.#isOver()) return
    }
  }

  /** Holds this instant against the model; answers when it wants to look again. */
  #look(): number {
    const nowUs = this.#nowUs()
    for (const job of this.#unheard) if (!isReleased(job)) this.#fail(`job ${job.n} goes before what it waits for`)
    this.#unheard.clear()
    for (const job of this.#jobs.values()) if (job.state !== 'pending') this.#comeDue(job, nowUs)
    const heads = this.#heads()
    const could = new Set<number>()
    let nextUs = Infinity
    for (const head of heads) {
      const atUs = this.#admitAt(head, nowUs)
      if (atUs !== Infinity && atUs > nowUs - SLACK_US && !(atUs === nowUs && this.#lastLookUs === nowUs - SLACK_US))
        nextUs = Math.min(nextUs, atUs + SLACK_US)
      const isReady = this.#isReady(head, heads, nowUs)
      if (isReady && this.#hasRoom(head.queue)) could.add(head.n)
      if (!isReady || isUnlimited(head)) this.#passed.delete(head.lane)
      else if (!this.#passed.has(head.lane)) this.#passed.set(head.lane, new Map())
    }
    for (const n of this.#couldSince.keys()) if (!could.has(n)) this.#couldSince.delete(n)
    for (const n of could) {
      const sinceUs = this.#couldSince.get(n) ?? nowUs
      this.#couldSince.set(n, sinceUs)
      if (nowUs - sinceUs >= this.#patienceOf(this.#jobs.get(n) as ModelJob))
        this.#fail(
          `job ${n} of lane ${this.#jobs.get(n)?.lane} waits, though all admit it and a slot is free, for ${nowUs - sinceUs} µs`,
        )
    }
    this.#lookAtShares(heads, nowUs)
    this.#lookAtShadows()
    this.#lastLookUs = nowUs
    this.#assuredNow.clear()
    this.#stirred = false
    return nextUs
  }

  /** How long a head may wait for nothing, µs: the claims of plain code do not know which queues of jobs are full. */
  #patienceOf(head: ModelJob): number {
    if (this.#plan.engines > 1) return COMPANY_US
    return this.#usesOf(head).some((use) => this.#ofPlainCode.has(this.#bucket(use))) ? PRECEDENCE_US : 0
  }

  /** A job within its share goes before all others in the common limit. */
  #lookAtShares(heads: readonly ModelJob[], nowUs: number): void {
    const overtakes = this.#overtakes.splice(0)
    if (this.#stirred) return
    for (const { bucket, by, waiting } of overtakes) {
      if (!heads.includes(waiting) || !this.#hasRoom(waiting.queue)) continue
      const uses = this.#usesOf(waiting)
      const own = uses.find((use) => this.#bucket(use) === bucket)
      // Handlers begin in any order: what others took of the share at this instant they may have taken before.
      if (!own || !this.#isAssured(waiting, own, nowUs)) continue
      const others = uses.filter((use) => use !== own)
      const isOpen = others.every((use) => this.#admits(waiting, use, nowUs))
      if (isOpen && !this.#isBehind(waiting, heads, others, nowUs))
        this.#fail(`job ${by.n} starts outside its share of ${bucket.name}, and job ${waiting.n} within its own waits`)
    }
  }

  /** The delays that limits in shadow mode tell are those that the model finds. */
  #lookAtShadows(): void {
    const [told, expected] = [new Map(this.#told), new Map(this.#expected)]
    this.#told.clear()
    this.#expected.clear()
    this.#shadowed += told.size
    if (this.#stirred || this.#plan.engines > 1 || this.#plan.refused > 0) return
    // Handlers may begin in another order than their starts were granted in: which of them is delayed cannot be told.
    for (const name of new Set([...told.keys(), ...expected.keys()].map((each) => each.slice(each.indexOf(' ') + 1)))) {
      if (this.#buckets.get(name)?.hasUnknownOrder) continue
      const [are, should] = [told, expected].map((delays) => inOrder(delays, name)) as [number[], number[]]
      for (let i = 0; i < Math.max(are.length, should.length); i++) {
        const [is = 0, wanted = 0] = [are[i], should[i]]
        if (is !== wanted && !(Math.abs(is - wanted) <= DELAY_SLACK_US))
          this.#fail(`a delay in ${name} is told as ${is} µs, ${wanted} µs expected`)
      }
    }
  }

  /** Whether a slot is all that a head needs. */
  #isReady(head: ModelJob, heads: readonly ModelJob[], nowUs: number): boolean {
    if (head.sinceUs > nowUs - SLACK_US) return false
    if (this.#usesOf(head).some((use) => !this.#admits(head, use, nowUs))) return false
    return !this.#isBehind(head, heads, head.uses, nowUs)
  }

  /**
   * Whether another head ranks before it at one of these buckets that refuses that one: then it is waited for. A slot for
   * this head is one for each head of its queue; heads of other queues that are full are not waited for.
   */
  #isBehind(head: ModelJob, heads: readonly ModelJob[], uses: readonly UsePlan[], nowUs: number): boolean {
    return heads.some(
      (other) =>
        (other.queue === head.queue || head.queue === PLAIN_CODE || this.#hasRoom(other.queue)) &&
        other.uses.some(
          (use) =>
            uses.some((own) => isSame(own, use)) &&
            (other === head || this.#ranksBefore(other, head, use, nowUs)) &&
            !this.#admits(other, use, nowUs),
        ),
    )
  }

  /** Whether one head may rank before another in a bucket: within its share it is before all that are not. */
  #ranksBefore(other: ModelJob, head: ModelJob, use: UsePlan, nowUs: number): boolean {
    const of = (job: ModelJob): boolean | null => {
      const own = job.uses.find((each) => isSame(each, use)) as UsePlan
      const [now, before] = [this.#isAssured(job, own, nowUs), this.#isAssured(job, own, nowUs - SLACK_US)]
      return now === before ? now : null
    }
    const [its, own] = [of(other), of(head)]
    if (its === null || own === null) return true
    return its === own ? other.level >= head.level : its
  }

  /** Whether a start is within a share of this bucket; null: that cannot be told. */
  #isAssured(job: ModelJob, { limit: common }: UsePlan, nowUs: number): boolean | null {
    const shares = job.uses.filter((each) => each.limit.share?.common === common)
    // Of several shares one is enough.
    if (shares.some((use) => !this.#bucket(use).isUncertain && this.#bucket(use).isAssured(nowUs, unitsOf(job, use))))
      return true
    return shares.some((use) => this.#bucket(use).isUncertain) ? null : false
  }

  /** The units that must remain after a start of this job. */
  #keptOf(job: ModelJob, use: UsePlan, nowUs: number, isStrict = false): number {
    const assured = this.#isAssured(job, use, nowUs)
    if (assured === true || (assured === null && !isStrict)) return 0
    return Math.max(keptOf(job, use), this.#reserves.get(use.limit) ?? 0)
  }

  #admits(job: ModelJob, use: UsePlan, nowUs: number): boolean {
    const bucket = this.#bucket(use)
    if (this.#mayHaveReturned(bucket)) return false
    const at = (us: number): boolean => bucket.admitAt(us, unitsOf(job, use), this.#keptOf(job, use, us, true)) <= us
    return at(nowUs) && at(nowUs - SLACK_US)
  }

  #admitAt(job: ModelJob, nowUs: number): number {
    return Math.max(
      job.sinceUs,
      ...this.#usesOf(job).map((use) =>
        this.#bucket(use).admitAt(nowUs, unitsOf(job, use), this.#keptOf(job, use, nowUs)),
      ),
    )
  }

  #heads(): ModelJob[] {
    const heads = new Map<string, ModelJob>()
    for (const job of this.#waiting()) {
      const head = heads.get(job.lane)
      if (!head || goesBefore(job, head)) heads.set(job.lane, job)
    }
    return [...heads.values()]
  }

  #hasRoom(queue: string): boolean {
    return this.#living.some(({ running }) => (running.get(queue) ?? 0) < this.#slotsOf(queue))
  }

  // ------------------------------------------------------------------------------------------ small

  #bucket({ limit: of, key }: UsePlan): ModelBucket {
    const name = `${of.name}:${key}`
    const bucket = this.#buckets.get(name) ?? new ModelBucket(of, key)
    this.#buckets.set(name, bucket)
    return bucket
  }

  #queueOf(queue: string): QueuePlan | undefined {
    return this.#plan.queues.find(({ name }) => name === queue)
  }

  #slotsOf(queue: string): number {
    return this.#queueOf(queue)?.concurrency ?? Infinity
  }

  #usesOf(job: JobPlan): UsePlan[] {
    return [...job.uses, ...(this.#queueOf(job.queue)?.uses ?? [])]
  }

  /** Priority, less the steps that were counted when it came; nothing ages past those who may use a reserve that it may not. */
  #levelOf({ priority, uses }: JobPlan, atUs: number): number {
    const { ageingMs } = this.#plan
    if (ageingMs === null) return priority
    const reached = uses.flatMap(({ limit: { headroom } }) =>
      headroom && headroom.priority <= priority ? [headroom.priority] : [],
    )
    const steps = Math.floor(Math.max(0, atUs - this.#beganUs) / (ageingMs * 1000))
    return priority - steps + (reached.length === 0 ? 0 : TIER * (Math.max(...reached) + 101))
  }

  #waiting(): ModelJob[] {
    return [...this.#jobs.values()].filter((job) => job.state === 'available' && job.lostUs === null)
  }

  #left(): ModelJob[] {
    return [...this.#jobs.values()].filter((job) => job.state !== 'over')
  }

  #isOver(): boolean {
    return this.#actsLeft === 0 && this.#left().length === 0
  }

  #nowUs(): number {
    return Math.round(this.#clock.now() * 1000)
  }

  #fail(problem: string): void {
    this.#problems.push(`[${((this.#nowUs() - this.#beganUs) / 1000).toFixed(3)} ms] ${problem}`)
  }

  #expectKept(): void {
    if (this.#problems.length > 0) throw new Error(`seed ${this.#plan.seed}: ${this.#problems.slice(0, 3).join('\n')}`)
  }
}

/** The delays in a bucket, the greatest first. Only those of jobs are told. */
function inOrder(delays: ReadonlyMap<string, number>, bucket: string): number[] {
  const ofBucket = [...delays].filter(([name]) => name.endsWith(` ${bucket}`) && !name.startsWith('ticket'))
  return ofBucket.map(([, us]) => us).sort((a, b) => (a === b ? 0 : b - a))
}

/** The limits as code defines them: a common limit before those that have a share of it. */
function limitsOf(plans: readonly LimitPlan[]): ReadonlyMap<string, Limit> {
  const limits = new Map<string, Limit>()
  for (const { name, policy, share } of plans.toSorted((a, b) => Number(a.share !== null) - Number(b.share !== null))) {
    const common = share && (limits.get(share.common.name) as Limit)
    const of = share &&
      common && {
        limit: share.key === '' ? common : common.key(share.key),
        atLeast: {
          ...(share.rule && { rate: 1, per: share.rule.everyUs / 1000, burst: share.rule.burst }),
          ...(share.concurrency !== null && { concurrency: share.concurrency }),
        } as { concurrency: number },
        ...(share.keys !== null && { keys: share.keys }),
        overcommit: 'scale' as const,
      }
    limits.set(name, limit(name, { ...policy, ...(of && { of }) }))
  }
  return limits
}

/** The units that starts outside the shares leave in common limits with a rate: at most half of its burst. */
function reservesOf(limits: readonly LimitPlan[]): ReadonlyMap<LimitPlan, number> {
  const reserves = new Map<LimitPlan, number>()
  for (const { share } of limits) {
    if (!share) continue
    const { common, rule, keys } = share
    const [first] = common.rules
    const most = first?.kind === 'rate' && common.concurrency === null ? Math.floor(first.burst / 2) : 0
    const units = rule ? (keys ?? Infinity) * rule.burst : 0
    reserves.set(common, Math.min(most, (reserves.get(common) ?? 0) + units))
  }
  return reserves
}

function laneOf(job: JobPlan): string {
  const uses = job.uses.map(({ limit: used, key }) => `${used.name}:${key}`).sort()
  return `${job.queue}|${uses.join()}|${job.fairKey ?? ''}`
}

/** Whether what a job of a flow waits for has ended. */
function isReleased(job: ModelJob): boolean {
  const { flow } = job
  if (!flow) return true
  const { kind, jobs, callback } = flow
  const ended = (each: ModelJob | undefined): boolean => !each || each.state === 'over' || each.state === 'ending'
  return job === callback ? jobs.every(ended) : kind !== 'chain' || ended(jobs[jobs.indexOf(job) - 1])
}

function goesBefore(a: ModelJob, b: ModelJob): boolean {
  return a.level > b.level || (a.level === b.level && a.seq < b.seq)
}

function isSame(a: UsePlan, b: UsePlan): boolean {
  return a.limit === b.limit && a.key === b.key
}

/** It stands in the queue's lane without limits, which takes turns with all others together. */
function isUnlimited(job: JobPlan): boolean {
  return job.uses.length === 0 && job.fairKey === null
}

function boundOf(job: JobPlan): number {
  return Math.min(Infinity, ...job.uses.map(({ limit: used }) => (used.shadow ? Infinity : used.maxWaitUs)))
}

function unitsOf(job: ModelJob, use: UsePlan): number {
  return use.limit.freeRetries && !use.limit.ofQueue && job.attempt > 0 ? 0 : use.weight
}

function keptOf(job: JobPlan, { limit: { headroom, shadow } }: UsePlan): number {
  return headroom && !shadow && job.priority < headroom.priority ? headroom.units : 0
}
