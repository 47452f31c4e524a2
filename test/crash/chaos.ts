// Everything that real fleets go through, at once and from a seed; and the promises that must hold afterwards.
import { expect } from 'vitest'
import { type Job, seededRandom, type Sluice } from '../../src/exports/index.ts'
import { Fleet, type Member, pause, until } from './fleet.ts'
import { AT_ONCE, callTask, GUARD_MS, PER_SECOND } from './tasks.ts'
import { monotonicUs, type Start, Observer } from './observer.ts'

const TENANTS = 8
/** Long enough to outlive a restart of the store, and what a slow machine takes to beat; short enough to be slept through. */
const LEASE_MS = 4000
/** Answers that were under way when a process fell asleep come right after it wakes. */
const DROWSY_MS = 1000

/** The parts of a run of chaos. */
export interface ChaosOptions {
  /** A SQLite file of its own by default. */
  readonly store?: string
  /** How many faults happen: kills, sleeps and restarts, one after the other. */
  readonly faults: number
  readonly seed: number
  /** By how much each worker's wall clock is off, s: one worker per entry. */
  readonly skewsS: readonly number[]
  /** Takes the store away and brings it back. */
  readonly restarts?: readonly (() => Promise<void>)[]
}

/** A half-open interval of the test's monotonic clock. */
interface Span {
  readonly fromUs: number
  toUs: number
}

/** A start with the instant at which it was decided, in µs of the test's monotonic clock. */
interface Decided extends Start {
  readonly decidedUs: number
}

/** One run of chaos over one fleet. */
export class Chaos {
  readonly fleet: Fleet
  readonly observer: Observer
  readonly engine: Sluice
  /** Jobs whose enqueue was acknowledged. */
  readonly jobs: Job<string>[] = []
  kills = 0
  sleeps = 0
  /** Runs whose job ran again. */
  doubled = 0
  /** When which process was killed, µs. */
  readonly #killedUs = new Map<string, number>()
  /** When which process was asleep. */
  readonly #asleep = new Map<string, Span[]>()
  /** When the store was away. */
  readonly #away: Span[] = []
  readonly #options: ChaosOptions
  readonly #call: ReturnType<typeof callTask> = callTask()
  readonly #chance: (least: number, most: number) => number
  readonly #members: Member[] = []
  #sleeping: Promise<void> | null = null
  #mostActive = 0
  #url = ''

  constructor(options: ChaosOptions) {
    this.#options = options
    const random = seededRandom(options.seed)
    const lasting = seededRandom(options.seed + 1)
    this.#chance = (least, most) => least + random.next() * (most - least)
    this.fleet = new Fleet(options.store)
    this.engine = this.fleet.engine([this.#call])
    this.observer = new Observer(async () => {
      await pause(5 + lasting.next() * 35)
      return 'done'
    })
  }

  /** Runs; answers when every acknowledged job is completed and the workers have stopped. */
  async run(): Promise<void> {
    const { faults, skewsS, restarts = [] } = this.#options
    this.#url = await this.observer.listen()
    await this.#arrive(40)
    for (const skewS of skewsS) this.#members.push(this.#worker(skewS))
    for (const member of this.#members) await until(`${member.name} is at work`, () => member.ready)
    const restartsLeft = [...restarts]
    for (let fault = 0; fault < faults; fault++) {
      const elapsed = fault / faults
      const dueRestarts = Math.ceil(restarts.length - elapsed * (restarts.length + 1))
      if (restartsLeft.length > dueRestarts) await this.#restart(restartsLeft.shift() as () => Promise<void>)
      else if (!this.#sleeping && this.#chance(0, 1) < 0.5) await this.#sleep()
      else await this.#kill()
      await pause(this.#chance(100, 700))
      await this.#arrive(8)
      this.#countActive()
    }
    await this.#sleeping
    await this.#drain()
    await this.#exhaust()
    await this.#drain()
    for (const member of this.#members) await this.fleet.stop(member)
  }

  /** 0 over budget, 0 lost, double runs only of jobs whose lease was lost. */
  async expectKept(): Promise<void> {
    expect(this.fleet.accidents).toEqual([])
    const starts = await this.#decided()
    this.#expectTermsKept(starts)
    this.#expectNoDoubleRuns(starts)
    expect(mostAtOnce(this.#permits(starts)), 'runs at once, by their permits').toBe(AT_ONCE)
    expect(this.#mostActive, 'active jobs in the store').toBeLessThanOrEqual(AT_ONCE)
    for (const { limit, key, active, waiting } of [
      ...(await this.engine.limits.inspect('tenant')),
      ...(await this.engine.limits.inspect('fleet')),
    ])
      expect({ limit, key, active, waiting }).toEqual({ limit, key, active: 0, waiting: 0 })
    for (const { id } of this.jobs)
      expect((await this.engine.jobs.get(id))?.attempt, 'the last run is the one that counts').toBe(
        this.observer.startsOf(id).at(-1)?.attempt,
      )
  }

  #worker(skewS: number): Member {
    return this.fleet.worker(this.#url, { lease: `${LEASE_MS}ms`, skewS })
  }

  async #arrive(eachTenant: number): Promise<void> {
    for (let i = 0; i < TENANTS; i++) {
      const calls = Array.from({ length: eachTenant }, () => ({ tenant: `t${i}` }))
      try {
        this.jobs.push(...(await this.#call.enqueueMany(calls)))
      } catch (error) {
        // Whether it was stored is unknown, and no caller got an answer.
        if (!this.fleet.storeMayBeAway) throw error
      }
    }
  }

  /** `kill -9`, and another in its place. */
  async #kill(): Promise<void> {
    const which = Math.floor(this.#chance(0, this.#members.length))
    const victim = this.#members[which] as Member
    if (this.#isAsleep(victim)) return
    this.#killedUs.set(victim.name, monotonicUs())
    await this.fleet.kill(victim)
    this.kills++
    this.#members[which] = this.#worker(victim.skewS)
  }

  /** One process is stopped past its leases, and goes on as if nothing had happened. */
  async #sleep(): Promise<void> {
    const member = this.#members[Math.floor(this.#chance(0, this.#members.length))] as Member
    await until(`${member.name} is at work`, () => member.ready)
    const span: Span = { fromUs: monotonicUs(), toUs: Infinity }
    this.#asleep.set(member.name, [...(this.#asleep.get(member.name) ?? []), span])
    this.fleet.sleep(member)
    this.sleeps++
    this.#sleeping = this.#wake(member, span)
  }

  async #wake(member: Member, span: Span): Promise<void> {
    await pause(LEASE_MS + this.#chance(200, 1500))
    span.toUs = monotonicUs()
    this.fleet.wake(member)
    this.#sleeping = null
  }

  #isAsleep(member: Member): boolean {
    return this.#asleep.get(member.name)?.at(-1)?.toUs === Infinity
  }

  async #restart(restart: () => Promise<void>): Promise<void> {
    const span: Span = { fromUs: monotonicUs(), toUs: Infinity }
    this.#away.push(span)
    this.fleet.storeMayBeAway = true
    await restart()
    void this.#forget(span)
  }

  /** Gives everybody time to notice that the store is back. */
  async #forget(away: Span): Promise<void> {
    await pause(2000)
    // eslint-disable-next-line no-param-reassign -- it is the record
    away.toUs = monotonicUs()
    this.fleet.storeMayBeAway = this.#away.some(({ toUs }) => toUs === Infinity)
  }

  #countActive(): void {
    void this.engine.jobs.list({ states: ['active'] }).then(
      (active) => (this.#mostActive = Math.max(this.#mostActive, active.length)),
      // The store is away.
      () => undefined,
    )
  }

  /** More calls of one tenant than its budget has: else it might hold nothing back on a slow machine, and keeping it would prove nothing. */
  async #exhaust(): Promise<void> {
    const calls = Array.from({ length: 3 * PER_SECOND }, () => ({ tenant: 't0' }))
    this.jobs.push(...(await this.#call.enqueueMany(calls)))
    await until('a budget holds jobs back', async () =>
      (await this.engine.limits.inspect('tenant')).some(({ waiting }) => waiting > 0),
    )
  }

  async #drain(): Promise<void> {
    const left = new Set(this.jobs.map(({ id }) => id))
    await until('every job is completed', async () => {
      for (const id of left) {
        if ((await this.engine.jobs.get(id))?.state !== 'completed') return false
        left.delete(id)
      }
      return true
    })
  }

  async #decided(): Promise<Decided[]> {
    const offsetUs = monotonicUs() - Date.now() * 1000
    const createdUs = new Map<string, number>()
    for (const id of new Set(this.observer.starts.map((start) => start.id)))
      createdUs.set(id, ((await this.engine.jobs.get(id))?.createdAt.getTime() ?? NaN) * 1000 + offsetUs)
    return this.observer.starts
      .map((start) => ({ ...start, decidedUs: (createdUs.get(start.id) ?? NaN) + start.ageMs * 1000 }))
      .sort((a, b) => a.decidedUs - b.decidedUs)
  }

  /** In every half-open second and guard, wherever it begins, at most so many decisions per tenant; in every second, arrivals. */
  #expectTermsKept(starts: readonly Decided[]): void {
    for (const tenant of new Set(starts.map((start) => start.tenant))) {
      const own = starts.filter((start) => start.tenant === tenant)
      const closestMs = closest(own.map(({ decidedUs }) => decidedUs)) / 1000
      // `createdAt` is a whole millisecond.
      expect(closestMs, `${tenant}: ms between decisions`).toBeGreaterThan(1000 + GUARD_MS - 1)
      const arrivals = own.filter((start) => !this.#sleptBefore(start)).map(({ atUs }) => atUs)
      expect(closest(arrivals.sort((a, b) => a - b)), `${tenant}: µs between arrivals`).toBeGreaterThanOrEqual(1e6)
    }
  }

  /** Its worker was stopped between the decision and the call: no store can guard against that. */
  #sleptBefore({ worker, decidedUs, atUs }: Decided): boolean {
    const spans = this.#asleep.get(worker) ?? []
    return spans.some(({ fromUs, toUs }) => decidedUs <= toUs && atUs >= fromUs && atUs < toUs + DROWSY_MS * 1000)
  }

  /** A job runs again only where its lease was lost: with its killed worker, in its worker's sleep, or while the store was away. */
  #expectNoDoubleRuns(starts: readonly Decided[]): void {
    expect(new Set(starts.map(({ id, attempt }) => `${id} ${attempt}`)).size, 'no attempt starts twice').toBe(
      starts.length,
    )
    const runsOf = new Map<string, Decided[]>()
    for (const start of starts) runsOf.set(start.id, [...(runsOf.get(start.id) ?? []), start])
    for (const runs of runsOf.values())
      for (const [i, again] of runs.slice(1).entries()) {
        this.doubled++
        const lost = runs[i] as Decided
        const what = `${lost.id} ${lost.attempt} of ${lost.worker}`
        const killedUs = this.#killedUs.get(lost.worker) ?? Infinity
        const excuses = [...this.#sleepsThatHold(lost.worker), ...this.#away]
        const excused = excuses.some(({ fromUs, toUs }) => fromUs < again.decidedUs && toUs > lost.decidedUs)
        expect(killedUs < again.decidedUs || excused, `${what} lost its lease before it ran again`).toBe(true)
        if (killedUs >= again.decidedUs)
          expect(again.decidedUs - lost.decidedUs, `${what}: µs of lease`).toBeGreaterThanOrEqual(
            LEASE_MS * 1000 - 2000,
          )
      }
  }

  /** Sleeps in which a worker may lose its lease: its own, and on a file anyone's, since a process can fall asleep with the write lock. */
  #sleepsThatHold(worker: string): Span[] {
    return this.#options.store === undefined ? [...this.#asleep.values()].flat() : (this.#asleep.get(worker) ?? [])
  }

  /** For how long each run surely held its permit: to its end, to its worker's, or, where it ran again, as long as its first lease. */
  #permits(starts: readonly Decided[]): Span[] {
    const lastOf = new Map(starts.map((start) => [start.id, start.attempt]))
    return starts
      .filter((start) => !this.#sleptBefore(start))
      .map((start) => {
        const leaseUs = lastOf.get(start.id) === start.attempt ? Infinity : start.decidedUs + LEASE_MS * 1000
        const asleep = this.#asleep.get(start.worker)?.find(({ fromUs }) => fromUs >= start.atUs)?.fromUs ?? Infinity
        const killedUs = this.#killedUs.get(start.worker) ?? Infinity
        return { fromUs: start.atUs, toUs: Math.min(start.endUs, killedUs, asleep, leaseUs) }
      })
  }
}

/** The shortest time within which one more than allowed followed upon another. @param times in order */
function closest(times: readonly number[]): number {
  return Math.min(...times.slice(PER_SECOND).map((time, i) => time - (times[i] as number)))
}

/** The most spans that any instant lies in. */
function mostAtOnce(spans: readonly Span[]): number {
  const ends = spans
    .filter(({ fromUs, toUs }) => fromUs < toUs)
    .flatMap(({ fromUs, toUs }) => [
      { atUs: fromUs, by: 1 },
      { atUs: toUs, by: -1 },
    ])
    .sort((a, b) => a.atUs - b.atUs || a.by - b.by)
  let now = 0
  return ends.reduce((most, { by }) => Math.max(most, (now += by)), 0)
}
