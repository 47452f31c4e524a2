import { Deputy } from '../../model/deputy.mjs'
import type { ModelJob, ModelLane } from '../../model/lanes.mjs'
import type { Store } from '../../../src/store/contract/store.ts'
import { type Arrival, type History, historyOf, type HistoryKind, type Step } from './history.ts'
import type { StoreBackend } from './backend.ts'
import { type ClaimSpec, StoreHarness } from './store-harness.ts'

/** One start, as both sides tell it. */
interface Start {
  readonly ms: number
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
  /** Puts something between the check and the store: for proofs that a faulty store is caught. */
  readonly wrap?: (store: Store) => Store
  /** After so many faults the check ends; 5 by default. */
  readonly faultsAtMost?: number
}

/**
 * Runs random histories on a store and on the executable model. For any history: no budget is exceeded, each lane
 * starts in order, no job that may start waits while a slot is free, and none is left behind. Where only the choice
 * among equals is open, both start as many jobs at the same instants and charge every bucket alike.
 */
export async function checkAgainstModel(backend: StoreBackend, options: ModelCheckOptions): Promise<ModelCheck> {
  const { faultsAtMost = 5 } = options
  const faults: string[] = []
  let starts = 0
  let looks = 0
  for (let seed = options.from; seed < options.from + options.seeds && faults.length < faultsAtMost; seed++) {
    const history = historyOf(seed, options.kind)
    const run = new StoreRun(await StoreHarness.open(backend, options.wrap), history)
    try {
      await run.all()
      if (options.kind !== 'any') compare(options.kind, run.starts, runModel(history))
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
class Reference extends Deputy {
  override enqueue(job: Parameters<Deputy['enqueue']>[0]): ModelJob {
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
  return model.log.map(({ t, names, weight }) => ({ ms: t, buckets: names, weight }))
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
  for (const { ms, buckets, weight } of starts) {
    const at = instants.get(ms) ?? { count: 0, units: new Map<string, number>() }
    instants.set(ms, at)
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
  readonly number: number
}

/** A lane as the check keeps it: its waiting jobs in order, and since when it waits for its turn. */
interface TrackedLane {
  readonly buckets: readonly string[]
  readonly jobs: Tracked[]
  turn: number
}

/** One history on a store, and a ledger of its own from which it knows what the store must do. */
class StoreRun {
  readonly harness: StoreHarness
  readonly starts: Start[] = []
  looks = 0
  readonly #history: History
  readonly #ledger: Deputy
  readonly #lanes = new Map<string, TrackedLane>()
  readonly #jobs: Tracked[] = []
  readonly #running = new Map<Tracked, number>()
  #nowMs = 0
  #turn = 0
  #again = false

  constructor(harness: StoreHarness, history: History) {
    this.harness = harness
    this.#history = history
    this.#ledger = new Deputy({ limits: history.limits, slots: history.slots })
  }

  async all(): Promise<void> {
    await this.harness.define(
      Object.fromEntries(
        Object.entries(this.#history.limits).map(([name, { T, burst, concurrency }]) => [
          name,
          T === undefined
            ? { concurrency: concurrency ?? 0 }
            : { rate: 1, per: T, burst: burst ?? 1, ...(concurrency !== undefined && { concurrency }) },
        ]),
      ),
    )
    for (const step of this.#history.steps) await this.#step(step)
    const left = [...this.#lanes.values()].find((lane) => lane.jobs.length > 0)
    if (left) throw new Fault(`${left.jobs.length} jobs of ${left.buckets.join()} are left behind`)
  }

  async #step(step: Step): Promise<void> {
    if (step.kind === 'arrive') await this.#arrive(step.job)
    else if (step.kind === 'cancel') await this.#cancel(this.#jobs[step.job]!)
    else await this.#run(step.ms)
  }

  async #arrive(arrival: Arrival): Promise<void> {
    const job: Tracked = { ...arrival, name: `j${this.#jobs.length}`, number: this.#jobs.length }
    this.#jobs.push(job)
    const id = job.buckets.join()
    let lane = this.#lanes.get(id)
    if (!lane) this.#lanes.set(id, (lane = { buckets: job.buckets, jobs: [], turn: 0 }))
    if (lane.jobs.length === 0) lane.turn = this.#turn
    lane.jobs.push(job)
    lane.jobs.sort((a, b) => b.priority - a.priority || a.number - b.number)
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
    const spec: ClaimSpec = { slots: this.#history.slots - this.#running.size, leaseMs: 1e9 }
    const claim = await this.harness.claim(spec)
    this.looks += claim.looks
    const started = claim.jobs.map((job) => this.#start(job.task))
    const again =
      started.length === 0 && claim.looks === 0 && claim.nextWakeUs !== null && claim.nextWakeUs <= claim.nowUs
    if (again && this.#again)
      throw new Fault(`two claims at ${this.#nowMs} ms looked at nothing and said to come again`)
    this.#again = again
    if (this.#running.size > this.#history.slots) throw new Fault(`${this.#running.size} run at ${this.#nowMs} ms`)
    return { nextMs: this.harness.ms(claim.nextWakeUs) ?? Infinity, started }
  }

  #start(name: string): Tracked {
    const job = this.#jobs[Number(name.slice(1))]!
    const lane = this.#lanes.get(job.buckets.join())!
    if (lane.jobs[0] !== job) throw new Fault(`${name} started before ${lane.jobs[0]?.name} at ${this.#nowMs} ms`)
    for (const bucket of job.buckets)
      if (this.#ledger.deny(this.#ledger.bucket(bucket), job.weight) !== null)
        throw new Fault(`${name} started at ${this.#nowMs} ms above the bound of ${bucket}`)
    for (const bucket of job.buckets) this.#ledger.charge(this.#ledger.bucket(bucket), job.weight)
    lane.jobs.shift()
    lane.turn = ++this.#turn
    this.#running.set(job, this.#nowMs + job.ms)
    this.starts.push({ ms: this.#nowMs, buckets: job.buckets, weight: job.weight })
    return job
  }

  /** A head that all its buckets admit may wait only behind one that goes before it in a line, and rightly stands there. */
  async #checkNothingWaits(): Promise<void> {
    if (this.#running.size >= this.#history.slots) return
    const waiting = [...this.#lanes.values()].filter((lane) => lane.jobs.length > 0)
    for (const lane of waiting) {
      if (!this.#admitted(lane)) continue
      if (!(await this.#hasOneAhead(lane, waiting)))
        throw new Fault(`${lane.jobs[0]!.name} could start at ${this.#nowMs} ms, but waits`)
    }
  }

  async #hasOneAhead(lane: TrackedLane, waiting: readonly TrackedLane[]): Promise<boolean> {
    for (const other of waiting) {
      if (other === lane || !goesBefore(other, lane)) continue
      const { waitsOn } = await this.harness.explain(other.jobs[0]!.name)
      if (!waitsOn) continue
      const bucket = waitsOn.key === '' ? waitsOn.limit : `${waitsOn.limit}:${waitsOn.key}`
      if (!lane.buckets.includes(bucket)) continue
      if (!this.#admits(bucket, other) || this.#admitted(other)) return true
    }
    return false
  }

  #admitted(lane: TrackedLane): boolean {
    return lane.buckets.every((bucket) => this.#admits(bucket, lane))
  }

  #admits(bucket: string, lane: TrackedLane): boolean {
    return this.#ledger.deny(this.#ledger.bucket(bucket), lane.jobs[0]!.weight) === null
  }
}

function goesBefore(a: TrackedLane, b: TrackedLane): boolean {
  const [first, second] = [a.jobs[0]!, b.jobs[0]!]
  return first.priority > second.priority || (first.priority === second.priority && a.turn <= b.turn)
}
