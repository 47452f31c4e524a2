import { limit } from '../../../src/exports/index.ts'
import type { GrantedJob } from '../../../src/jobs/job.ts'
import { useOf } from '../../../src/policy/limits/define.ts'
import type { ShadowedStart } from '../../../src/policy/admission/queue-slots.ts'
import type { LimitDefinition } from '../../../src/policy/limits/limit.ts'
import type { Policy } from '../../../src/policy/limits/policy.ts'
import { Ahead, type ModelShadow, type Stands } from '../../model/ahead.mjs'
import type { ModelJob, ModelLane, ModelLimit, ModelShare } from '../../model/lanes.mjs'
import type { Store } from '../../../src/store/contract/store.ts'
import { type Arrival, type History, historyOf, type HistoryKind, type Step } from './history.ts'
import type { StoreBackend } from './backend.ts'
import { type ClaimSpec, StoreHarness } from './store-harness.ts'

/** One start, as both sides tell it. */
interface Start {
  readonly ms: number
  /** When a claim granted it: at that instant, or ahead of it. */
  readonly decidedMs: number
  readonly buckets: readonly string[]
  readonly weight: number
}

/** The results of many histories. */
export interface ModelCheck {
  readonly starts: number
  readonly looks: number
  /** The faults, each with the seed that shows it; the first few. */
  readonly faults: readonly string[]
}

export interface ModelCheckOptions {
  readonly kind: HistoryKind
  readonly from: number
  readonly seeds: number
  /** How far ahead claims grant starts, in ms; 0 by default. */
  readonly aheadMs?: number
  /** Puts something between the check and the store: for proofs that a faulty store is caught. */
  readonly wrap?: (store: Store) => Store
  /** After so many faults the check ends; 5 by default. */
  readonly faultsAtMost?: number
}

/**
 * Runs random histories on a store and on the executable model. For any history: no budget is exceeded, each lane
 * starts in order, no job that may start waits while a slot is free, and none is left behind. None is overtaken within
 * its guarantee, and limits in shadow mode tell the delays of the model. Where only the choice among equals is open,
 * both start as many jobs at the same instants, decide them at the same instants, and charge every bucket alike.
 */
export async function checkAgainstModel(backend: StoreBackend, options: ModelCheckOptions): Promise<ModelCheck> {
  const { aheadMs = 0, faultsAtMost = 5 } = options
  const faults: string[] = []
  let starts = 0
  let looks = 0
  for (let seed = options.from; seed < options.from + options.seeds && faults.length < faultsAtMost; seed++) {
    const history = historyOf(seed, options.kind)
    const run = new StoreRun(await StoreHarness.open(backend, options.wrap), history, aheadMs)
    try {
      await run.all()
      if (options.kind === 'single' || options.kind === 'shared')
        compare(options.kind, run.starts, aheadMs === 0 ? runModel(history) : runAhead(history, aheadMs, run.claims))
    } catch (error) {
      if (!(error instanceof Fault)) throw error
      faults.push(`seed ${seed}: ${error.message}`)
    } finally {
      await run.harness.store.close()
    }
    starts += run.starts.length
    looks += run.looks
  }
  return { starts, looks, faults }
}

class Fault extends Error {}

/** The model, with the order of turns that stores keep: a newcomer behind all that wait, ties to the older head. */
class Reference extends Ahead {
  override enqueue(job: Parameters<Ahead['enqueue']>[0]): ModelJob {
    const arrived = super.enqueue(job)
    if (arrived.lane.jobs.length === 1) arrived.lane.turn = this.#turnNow()
    return arrived
  }

  override claim(): ModelJob[] {
    this.turnNo = this.#turnNow()
    return super.claim()
  }

  override rank(a: ModelLane, b: ModelLane): number {
    const [first, second] = [a.jobs[0]!, b.jobs[0]!]
    return second.priority - first.priority || a.turn - b.turn || first.id - second.id
  }

  #turnNow(): number {
    return Math.max(this.turnNo, this.now * 1000)
  }
}

function runModel(history: History): Start[] {
  const model = new Reference({ limits: history.limits, slots: history.slots })
  const jobs: ModelJob[] = []
  for (const step of history.steps) {
    if (step.kind === 'arrive') jobs.push(model.enqueue(step.job))
    else if (step.kind === 'cancel') model.cancel(jobs[step.job]!)
    else model.run(step.ms)
  }
  return startsOf(model)
}

/** Runs the model with claims at the instants at which the store was asked, each after so many steps. */
function runAhead(history: History, ahead: number, claims: readonly ClaimAt[]): Start[] {
  const model = new Reference({ limits: history.limits, slots: history.slots, ahead })
  const jobs: ModelJob[] = []
  const due = [...claims]
  for (const [i, step] of history.steps.entries()) {
    if (step.kind === 'arrive') jobs.push(model.enqueue(step.job))
    else if (step.kind === 'cancel') model.cancel(jobs[step.job]!)
    else {
      while (due[0]?.step === i) {
        model.now = due.shift()!.ms
        for (const job of model.running.values()) if (job.end! <= model.now) model.finish(job)
        model.claim()
      }
      model.now = step.ms
    }
  }
  return startsOf(model)
}

function startsOf(model: Reference): Start[] {
  return model.log.map(({ t, decided = t, names, weight }) => ({ ms: t, decidedMs: decided, buckets: names, weight }))
}

/** Compares instants, how many started at each, and what was charged: to each bucket, or where lanes are alike to each limit. */
function compare(kind: HistoryKind, store: readonly Start[], model: readonly Start[]): void {
  const named = (bucket: string): string => (kind === 'shared' ? bucket.split(':')[0]! : bucket)
  const [left, right] = [tally(store, named), tally(model, named)]
  for (const ms of [...new Set([...left.keys(), ...right.keys()])].sort((a, b) => a - b)) {
    const [seen, expected] = [left.get(ms) ?? 'nothing', right.get(ms) ?? 'nothing']
    if (seen !== expected) throw new Fault(`at ${ms} ms the store started ${seen}, the model ${expected}`)
  }
}

function tally(starts: readonly Start[], named: (bucket: string) => string): Map<number, string> {
  const instants = new Map<number, { count: number; units: Map<string, number> }>()
  for (const { ms, decidedMs, buckets, weight } of starts) {
    const at = instants.get(ms) ?? { count: 0, units: new Map<string, number>() }
    instants.set(ms, at)
    if (decidedMs < ms) at.units.set('ahead', (at.units.get('ahead') ?? 0) + ms - decidedMs)
    at.count++
    for (const bucket of buckets.map(named)) at.units.set(bucket, (at.units.get(bucket) ?? 0) + weight)
  }
  return new Map(
    [...instants].map(([ms, { count, units }]) => {
      const charged = [...units].sort(([a], [b]) => (a < b ? -1 : 1)).map(([bucket, sum]) => `${bucket} ${sum}`)
      return [ms, `${count} (${charged.join(', ')})`]
    }),
  )
}

/** A job as the check keeps it. */
interface Tracked extends Arrival {
  readonly name: string
  readonly id: number
}

/** A lane as the check keeps it: its waiting jobs in order, and since when it waits for its turn. */
interface TrackedLane extends Stands {
  readonly jobs: Tracked[]
  turn: number
}

/** A claim: its instant, and the number of the step in which it was made. */
interface ClaimAt {
  readonly ms: number
  readonly step: number
}

/** The buckets as the check keeps them. Of lanes that the store may order either way neither goes first. */
class Ledger extends Ahead {
  override rank(a: Stands, b: Stands): number {
    return b.jobs[0]!.priority - a.jobs[0]!.priority || a.turn - b.turn
  }
}

/** One history on a store, and a ledger of its own from which it knows what the store must do. */
class StoreRun {
  readonly harness: StoreHarness
  readonly starts: Start[] = []
  looks = 0
  readonly #history: History
  readonly claims: ClaimAt[] = []
  readonly #aheadMs: number
  readonly #ledger: Ledger
  readonly #lanes = new Map<string, TrackedLane>()
  readonly #jobs: Tracked[] = []
  readonly #running = new Map<Tracked, number>()
  #nowMs = 0
  #turn = 0
  #again = false
  #stepNo = 0
  /** Lanes that a start granted ahead may hold up, and since when. */
  readonly #heldUp = new Map<TrackedLane, number>()

  constructor(harness: StoreHarness, history: History, aheadMs: number) {
    this.harness = harness
    this.#history = history
    this.#aheadMs = aheadMs
    this.#ledger = new Ledger({ limits: history.limits, slots: history.slots, ahead: aheadMs })
    this.#ledger.lanesOf = (name) => [...this.#lanes.values()].filter(({ names }) => names.includes(name)).length
  }

  async all(): Promise<void> {
    await this.harness.store.define(definitions(this.#history.limits))
    for (const [i, step] of this.#history.steps.entries()) {
      this.#stepNo = i
      await this.#step(step)
    }
    const left = [...this.#lanes.values()].find((lane) => lane.jobs.length > 0)
    if (left) throw new Fault(`${left.jobs.length} jobs of ${left.names.join()} are left behind`)
  }

  async #step(step: Step): Promise<void> {
    if (step.kind === 'arrive') await this.#arrive(step.job)
    else if (step.kind === 'cancel') await this.#cancel(this.#jobs[step.job]!)
    else await this.#run(step.ms)
  }

  async #arrive(arrival: Arrival): Promise<void> {
    const job: Tracked = { ...arrival, name: `j${this.#jobs.length}`, id: this.#jobs.length }
    this.#jobs.push(job)
    const id = job.buckets.join()
    let lane = this.#lanes.get(id)
    if (!lane) this.#lanes.set(id, (lane = { names: job.buckets, jobs: [], turn: 0 }))
    if (lane.jobs.length === 0) lane.turn = this.#turn
    lane.jobs.push(job)
    lane.jobs.sort((a, b) => b.priority - a.priority || a.id - b.id)
    const limits = job.buckets.map((bucket) => `${bucket}*${job.weight}`)
    await this.harness.add(job.name, { limits, priority: job.priority })
  }

  async #cancel(job: Tracked): Promise<void> {
    const lane = this.#lanes.get(job.buckets.join())!
    const at = lane.jobs.indexOf(job)
    if (at < 0) return
    lane.jobs.splice(at, 1)
    const answer = await this.harness.cancel(job.name)
    if (answer !== 'cancelled') throw new Fault(`${job.name} waited, but cancelling it answered ${answer}`)
  }

  async #run(untilMs: number): Promise<void> {
    for (let rounds = 0; rounds < 10_000; rounds++) {
      await this.#finish()
      const { nextMs, started } = await this.#claim()
      if (started.some((job) => this.#running.get(job)! <= this.#nowMs) || nextMs <= this.#nowMs) continue
      await this.#checkNothingWaits()
      const next = Math.min(nextMs, ...this.#running.values())
      this.#nowMs = Math.min(next, untilMs)
      this.harness.at(this.#nowMs)
      this.#ledger.now = this.#nowMs
      if (next > untilMs) return
    }
    throw new Fault(`it spins at ${this.#nowMs} ms`)
  }

  async #finish(): Promise<void> {
    const over = [...this.#running].filter(([, endMs]) => endMs <= this.#nowMs).map(([job]) => job)
    if (over.length === 0) return
    for (const job of over) {
      this.#running.delete(job)
      for (const bucket of job.buckets) this.#ledger.bucket(bucket).active--
    }
    await this.harness.complete(...over.map((job) => job.name))
  }

  async #claim(): Promise<{ nextMs: number; started: Tracked[] }> {
    const slots = this.#history.slots - this.#running.size
    const spec: ClaimSpec = { slots, leaseMs: 1e9, ...(this.#aheadMs > 0 && { aheadMs: this.#aheadMs }) }
    this.claims.push({ ms: this.#nowMs, step: this.#stepNo })
    const claim = await this.harness.claim(spec)
    this.looks += claim.looks
    const started = claim.jobs.map((job) => this.#start(job))
    const again =
      started.length === 0 && claim.looks === 0 && claim.nextWakeUs !== null && claim.nextWakeUs <= claim.nowUs
    if (again && this.#again)
      throw new Fault(`two claims at ${this.#nowMs} ms looked at nothing and said to come again`)
    this.#again = again
    if (this.#running.size > this.#history.slots) throw new Fault(`${this.#running.size} run at ${this.#nowMs} ms`)
    return { nextMs: this.harness.ms(claim.nextWakeUs) ?? Infinity, started }
  }

  #start({ task: name, startedUs, shadowed = [] }: GrantedJob): Tracked {
    const job = this.#jobs[Number(name.slice(1))]!
    const lane = this.#lanes.get(job.buckets.join())!
    const ms = this.harness.ms(startedUs)!
    if (lane.jobs[0] !== job) throw new Fault(`${name} started before ${lane.jobs[0]?.name} at ${ms} ms`)
    if (ms < this.#nowMs || ms > this.#nowMs + this.#aheadMs)
      throw new Fault(`${name} starts at ${ms} ms, decided at ${this.#nowMs} ms`)
    this.#ledger.clock = this.#nowMs
    this.#ledger.now = ms
    if (ms > this.#nowMs && !this.#ledger.mayGo(lane)) throw new Fault(`${name} may not go ahead to ${ms} ms`)
    const guaranteed = this.#guaranteedBefore(lane)
    for (const bucket of job.buckets)
      if (!this.#admits(bucket, lane)) throw new Fault(`${name} started at ${ms} ms above the bound of ${bucket}`)
    this.#ledger.told = []
    for (const bucket of job.buckets) this.#ledger.charge(this.#ledger.bucket(bucket), job.weight)
    for (const [common, other] of guaranteed)
      if (!this.#admits(common, other)) throw new Fault(`${name} at ${ms} ms overtakes ${other.jobs[0]!.name}`)
    const [told, expected] = [shadowed.map(toldOf), this.#ledger.told].map((each) =>
      JSON.stringify(each.sort(byBucket)),
    )
    if (told !== expected) throw new Fault(`${name} at ${ms} ms: the store told ${told}, the model ${expected}`)
    this.#ledger.clock = null
    this.#ledger.now = this.#nowMs
    lane.jobs.shift()
    lane.turn = ++this.#turn
    this.#running.set(job, ms + job.ms)
    this.starts.push({ ms, decidedMs: this.#nowMs, buckets: job.buckets, weight: job.weight })
    return job
  }

  /**
   * The lanes within their guarantee in a common bucket where this one is not, and for which nothing else is closed: its
   * start must leave them theirs.
   */
  #guaranteedBefore(lane: TrackedLane): [string, TrackedLane][] {
    const waiting = [...this.#lanes.values()].filter((other) => other.jobs.length > 0)
    return lane.names.flatMap((common) => {
      if (this.#ledger.within(lane, this.#ledger.bucket(common))) return []
      const isFree = (other: TrackedLane): boolean =>
        other.names.every((name) => {
          const goesBefore = (each: TrackedLane): boolean =>
            each !== other &&
            each.names.includes(name) &&
            this.#ledger.rankIn(this.#ledger.bucket(name), each, other) <= 0
          return name === common || (this.#admits(name, other) && !waiting.some(goesBefore))
        })
      return waiting
        .filter((other) => other.names.includes(common) && this.#isWithin(other, common) && isFree(other))
        .filter((other) => this.#ledger.now === this.#nowMs || this.#ledger.mayGo(other))
        .map((other): [string, TrackedLane] => [common, other])
    })
  }

  /** Whether a lane is within its guarantee, and was so at the clock: what begins in between finds what was granted. */
  #isWithin(lane: TrackedLane, common: string): boolean {
    const { now } = this.#ledger
    const bucket = this.#ledger.bucket(common)
    const isNow = this.#ledger.within(lane, bucket)
    this.#ledger.now = this.#nowMs
    const was = this.#ledger.within(lane, bucket)
    this.#ledger.now = now
    return isNow && was
  }

  /** A head that all its buckets admit may wait only behind one that goes before it in a line, and rightly stands there. */
  async #checkNothingWaits(): Promise<void> {
    if (this.#running.size >= this.#history.slots) return
    const waiting = [...this.#lanes.values()].filter((lane) => lane.jobs.length > 0)
    for (const lane of waiting) {
      const isFree = this.#admitted(lane) && !(await this.#hasOneAhead(lane, waiting))
      if (!isFree) this.#heldUp.delete(lane)
      if (!isFree || this.#mayBeHeldUp(lane)) continue
      throw new Fault(`${lane.jobs[0]!.name} could start at ${this.#nowMs} ms, but waits`)
    }
  }

  /** A lane that stands before another one may leave their line at an instant that has been decided ahead. */
  #mayBeHeldUp(lane: TrackedLane): boolean {
    const sinceMs = this.#heldUp.get(lane) ?? this.#nowMs
    this.#heldUp.set(lane, sinceMs)
    return this.#aheadMs > 0 && this.#nowMs <= sinceMs + this.#aheadMs
  }

  async #hasOneAhead(lane: TrackedLane, waiting: readonly TrackedLane[]): Promise<boolean> {
    for (const other of waiting) {
      if (other === lane) continue
      const { waitsOn } = await this.harness.explain(other.jobs[0]!.name)
      if (!waitsOn) continue
      const bucket = bucketOf(waitsOn.limit, waitsOn.key)
      if (!lane.names.includes(bucket)) continue
      if (this.#ledger.rankIn(this.#ledger.bucket(bucket), other, lane) > 0) continue
      if (!this.#admits(bucket, other) || this.#admitted(other)) return true
    }
    return false
  }

  #admitted(lane: TrackedLane): boolean {
    return lane.names.every((bucket) => this.#admits(bucket, lane))
  }

  #admits(bucket: string, lane: TrackedLane): boolean {
    return this.#ledger.deny(this.#ledger.bucket(bucket), lane.jobs[0]!.weight, lane) === null
  }
}

const byBucket = (a: ModelShadow, b: ModelShadow): number => (a.bucket < b.bucket ? -1 : 1)

function toldOf({ limit: name, key, delayUs, drops }: ShadowedStart): ModelShadow {
  return { bucket: bucketOf(name, key), delay: delayUs === null ? null : delayUs / 1000, drops }
}

function bucketOf(name: string, key: string): string {
  return key === '' ? name : `${name}:${key}`
}

/** The limits of a history as a store is told them; those with a share name their common limit. */
function definitions(limits: History['limits']): LimitDefinition[] {
  const made = new Map<string, ReturnType<typeof limit>>()
  const policyOf = ({ of, maxWait, mode, onLimit, ...rest }: ModelLimit): Policy => ({
    ...rulesOf(rest),
    ...(mode && { mode }),
    ...(onLimit && { onLimit }),
    ...(maxWait !== undefined && { maxWait }),
    ...(of && { of: shareOf(of, made) }),
  })
  for (const [name, each] of Object.entries(limits)) if (!each.of) made.set(name, limit(name, policyOf(each)))
  for (const [name, each] of Object.entries(limits)) if (each.of) made.set(name, limit(name, policyOf(each)))
  return [...made].map(([name, each]) => ({ name, policy: useOf(each).policy, version: 0 }))
}

function shareOf({ limit: common, keys, ...least }: ModelShare, made: ReadonlyMap<string, ReturnType<typeof limit>>) {
  return {
    limit: made.get(common)!,
    atLeast: rulesOf(least),
    overcommit: 'scale' as const,
    ...(keys !== undefined && { keys }),
  }
}

function rulesOf({ T, burst = 1, concurrency }: Pick<ModelLimit, 'T' | 'burst' | 'concurrency'>) {
  return {
    ...(T !== undefined && { rate: 1, per: T, burst }),
    ...(concurrency !== undefined && { concurrency }),
  } as { rate: number; per: number; burst: number }
}
