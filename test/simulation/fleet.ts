// One engine of the simulated fleet, on a clock and a store that can fall silent at any moment, as a killed process does.
import type { Activity, Clock, Timer } from '../../src/base/clock.ts'
import { silentLogger } from '../../src/base/logger.ts'
import { seededRandom } from '../../src/base/random.ts'
import { Sluice } from '../../src/engine/engine.ts'
import type { Task } from '../../src/engine/define/task.ts'
import type { SettleResult, Settlement } from '../../src/jobs/settlement.ts'
import type { Limit } from '../../src/policy/limits/define.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import type { CancelledRun } from '../../src/store/contract/recall.ts'
import type { Beat, Enqueued, Claim, Run, Store, Unstarted } from '../../src/store/contract/store.ts'
import type { ManualClock } from '../../src/testing/manual-clock.ts'
import type { Crash, Scenario, Use } from './scenario.ts'

/** The report of a simulated engine on itself. */
export interface Observer {
  claimed(engine: Engine, claim: Claim): void
  settled(engine: Engine, settlement: Settlement, answer: SettleResult): void
  released(engine: Engine, runs: readonly Unstarted[]): void
  /** The engine logged an error. */
  complained(engine: Engine, about: object, message: string): void
  beat(engine: Engine, runs: readonly Run[]): void
}

export interface EngineOptions {
  readonly place: number
  readonly path: string
  readonly clock: ManualClock
  readonly scenario: Scenario
  readonly limits: ReadonlyMap<string, Limit>
  readonly task: (engine: Engine) => Task<{ n: number }, { n: number }, unknown>
  readonly observer: Observer
  readonly sabotage: Sabotage
}

/** Puts a fault into a store: for showing that the simulator notices. */
export type Sabotage = (store: Store, path: string) => Store

/** One engine of the fleet. */
export class Engine {
  readonly place: number
  readonly sluice: Sluice
  readonly task: Task<{ n: number }, { n: number }, unknown>
  readonly clock: MortalClock
  readonly store: MortalStore
  /** As its own code defines them. */
  readonly limits: ReadonlyMap<string, Limit>
  /** Handlers that run in it now, by run. */
  readonly running: Map<string, { readonly queue: string; readonly seq: number }> = new Map()
  stopping: Promise<void> | null = null
  stopped = false

  constructor(options: EngineOptions) {
    const { place, path, clock, scenario, limits, task, observer, sabotage } = options
    this.place = place
    this.limits = limits
    this.clock = new MortalClock(clock)
    this.store = new MortalStore(sabotage(storeOf(path, this.clock), path), this, observer)
    this.task = task(this)
    this.sluice = new Sluice({
      store: this.store.asStore(),
      tasks: [this.task],
      limits: [...limits.values()],
      queues: Object.fromEntries(
        scenario.queues
          .filter((queue) => queue.servedBy.includes(place))
          .map((queue) => [
            queue.name,
            { concurrency: queue.concurrency, limits: queue.uses.map((use) => limitUse(limits, use)) },
          ]),
      ),
      clock: this.clock,
      logger: {
        ...silentLogger,
        error: (about: object, message?: string) => {
          // The fleet looks at discards itself.
          if (!this.dead && message !== 'a job was discarded') observer.complained(this, about, message ?? '')
        },
      },
      lease: scenario.leaseMs,
      ahead: scenario.aheadMs[place] ?? 0,
      random: seededRandom(scenario.seed + place),
    })
  }

  get dead(): boolean {
    return this.clock.dead
  }

  /** Takes no more part in the fleet: dead, or on its way to stop. */
  get gone(): boolean {
    return this.dead || this.stopping !== null
  }

  /** Ends in good order. */
  stop(withinMs: number): void {
    this.stopping = this.sluice.stop({ within: withinMs }).finally(() => {
      this.stopped = true
    })
  }

  /** Falls silent at once: no timer fires, no call is answered, nothing is given back. */
  die(): void {
    this.clock.dead = true
    this.running.clear()
  }
}

/** The store of the fleet's file; what has ended is kept for the simulator to look at. */
export function storeOf(path: string, clock: Clock): Store {
  return new SqliteStore({
    path,
    clock,
    durability: 'process',
    retention: { completedUs: 1e13, cancelledUs: 1e13, discardedUs: 1e13 },
  })
}

/** A use of a limit as a scenario has it. */
export function limitUse(limits: ReadonlyMap<string, Limit>, { limit, key, weight }: Use): ReturnType<Limit['key']> {
  const found = limits.get(limit.name)!
  return key === '' ? found.weight(weight) : found.key(key, { weight })
}

class MortalClock implements Clock {
  readonly bootId: string
  dead = false
  readonly #clock: ManualClock

  constructor(clock: ManualClock) {
    this.#clock = clock
    this.bootId = clock.bootId
  }

  now(): number {
    return this.#clock.now()
  }

  monotonicUs(): number {
    return this.#clock.monotonicUs()
  }

  setTimer(run: () => void, delayMs: number): Timer {
    return this.#clock.setTimer(() => {
      if (!this.dead) run()
    }, delayMs)
  }

  // Handlers wait on this clock alone, so that it need not wait for them.
  attach(activity: Activity): () => void {
    return this.#clock.attach?.({ pending: () => activity.pending(), running: () => 0 }) ?? ((): void => undefined)
  }
}

/** A store between the engine and its file: tells the observer what was answered, and can stop answering. */
class MortalStore {
  readonly backend: string
  /** How the engine dies at the next occasion. */
  fate: Exclude<Crash, 'idle'> | null = null
  /** Until when heartbeats do not reach the file. */
  silentUntilUs = 0
  readonly inner: Store
  readonly #engine: Engine
  readonly #observer: Observer

  constructor(inner: Store, engine: Engine, observer: Observer) {
    this.inner = inner
    this.backend = inner.backend
    this.#engine = engine
    this.#observer = observer
  }

  get unresolved(): Store['unresolved'] {
    return this.inner.unresolved
  }

  get pending(): boolean {
    return this.inner.pending
  }

  nowUs(): number {
    return this.inner.nowUs()
  }

  watch(listener: Parameters<Store['watch']>[0]): () => void {
    return this.inner.watch(listener)
  }

  enqueue(...call: Parameters<Store['enqueue']>): Promise<Enqueued[]> {
    return this.#through(() => this.inner.enqueue(...call), { dies: 'after-enqueue' })
  }

  claim(request: Parameters<Store['claim']>[0]): Promise<Claim> {
    return this.#through(() => this.inner.claim(request), {
      dies: 'after-claim',
      if: (claim) => claim.jobs.length > 0,
      tell: (claim) => this.#observer.claimed(this.#engine, claim),
    })
  }

  settle(worker: number, settlement: Settlement): Promise<SettleResult> {
    if (this.fate === 'before-settle') this.#engine.die()
    return this.#through(() => this.inner.settle(worker, settlement), {
      dies: 'after-settle',
      tell: (answer) => this.#observer.settled(this.#engine, settlement, answer),
    })
  }

  release(worker: number, runs: readonly Unstarted[]): Promise<readonly CancelledRun[]> {
    return this.#through(() => this.inner.release(worker, runs), {
      tell: () => this.#observer.released(this.#engine, runs),
    })
  }

  heartbeat(worker: number, runs: readonly Run[], leaseUs: number): Promise<Beat> {
    if (this.nowUs() < this.silentUntilUs) return Promise.resolve({ cancelled: [], lost: [] })
    return this.#through(() => this.inner.heartbeat(worker, runs, leaseUs), {
      tell: ({ lost }) =>
        this.#observer.beat(
          this.#engine,
          runs.filter((run) => !lost.includes(run.seq)),
        ),
    })
  }

  /** The store as its engine sees it: a call of which nothing is told goes through as it is. */
  asStore(): Store {
    return new Proxy(this.inner, {
      get: (inner, name): unknown => {
        const own: unknown = Reflect.get(this, name)
        if (own !== undefined) return typeof own === 'function' ? (own.bind(this) as unknown) : own
        const value: unknown = Reflect.get(inner, name)
        if (typeof value !== 'function') return value
        return (...given: unknown[]): unknown =>
          this.#through(async (): Promise<unknown> => Reflect.apply(value, inner, given))
      },
    })
  }

  async #through<T>(
    call: () => Promise<T>,
    on: { dies?: Crash; if?: (answer: T) => boolean; tell?: (answer: T) => void } = {},
  ): Promise<T> {
    if (this.#engine.dead) return silence()
    const answer = await call()
    on.tell?.(answer)
    if (on.dies !== undefined && this.fate === on.dies && (on.if?.(answer) ?? true)) this.#engine.die()
    return this.#engine.dead ? silence() : answer
  }
}

function silence<T>(): Promise<T> {
  return new Promise(() => undefined)
}
