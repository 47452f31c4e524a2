import { uuidv7 } from 'uuidv7'
import { afterEach, beforeEach, expect } from 'vitest'
import { inLaneOrder } from '../../../src/jobs/lane.ts'
import type { Callback, PlainFlowKind, FlowRecord } from '../../../src/jobs/flow.ts'
import { dependencies, type FlowJob, type NewFlow } from '../../../src/jobs/new-flow.ts'
import type { GrantedJob, JobRecord, NewJob, Occurrence } from '../../../src/jobs/job.ts'
import type { JobExtra } from '../../../src/jobs/job-extra.ts'
import type { SettleResult, Settlement } from '../../../src/jobs/settlement.ts'
import type { UniqueRule } from '../../../src/jobs/unique-key.ts'
import { normalisePolicy } from '../../../src/policy/limits/normalise.ts'
import type { ElsewhereTerms } from '../../../src/policy/admission/elsewhere.ts'
import type { PolicyChange } from '../../../src/policy/limits/override.ts'
import type { Policy } from '../../../src/policy/limits/policy.ts'
import type { BucketReport } from '../../../src/store/contract/limits.ts'
import type { BucketUse, Claim, Enqueued, Recovered, Store } from '../../../src/store/contract/store.ts'
import type { Explanation } from '../../../src/store/contract/waits.ts'
import type { StoreBackend, StoreSettings } from './backend.ts'
import { VirtualClock } from './virtual-clock.ts'

/** The fields of a job that the suites name; all others have a default. */
export interface JobSpec {
  /** `name`, `name:key`, each with `*weight` behind it if that is not 1. */
  readonly limits?: readonly string[]
  readonly queue?: string
  readonly priority?: number
  readonly attempts?: number
  readonly input?: string
  readonly runAtMs?: number
  readonly delayUs?: number
  readonly expiresAtMs?: number
  readonly fairKey?: string
  readonly share?: number
  readonly unique?: Partial<UniqueRule> & { readonly key: string }
  /** Stored beside the job as JSON. */
  readonly extra?: JobExtra
  readonly occurrence?: Occurrence
}

/** The fields of a flow that the suites name: its jobs by name. */
export interface FlowSpec {
  readonly kind?: PlainFlowKind
  readonly jobs: Readonly<Record<string, JobSpec & { readonly after?: readonly string[]; readonly delayMs?: number }>>
  readonly callbacks?: Readonly<Partial<Record<Callback, string>>>
}

/** How one claim is made. */
export interface ClaimSpec {
  readonly slots?: number
  readonly queue?: string
  /** Several queues at once, with the slots of each; instead of `slots` and `queue`. */
  readonly queues?: Readonly<Record<string, number>>
  readonly leaseMs?: number
  readonly worker?: number
  readonly eventWindowMs?: number
  /** How far ahead starts are granted, and the most of them in each queue (default: any number). */
  readonly aheadMs?: number
  readonly ahead?: number
  /** The buckets of held starts, `name` or `name:key`. */
  readonly holds?: readonly string[]
  /** The claimer's knowledge about backends; by default it has none. */
  readonly elsewhere?: ElsewhereTerms
  /** The tasks that the claimer lists; any by default. */
  readonly tasks?: readonly string[]
}

const LEASE_MS = 30_000
const LONG_US = 1e15
export const FAILURE: { readonly code: string; readonly message: string } = { code: 'task.failed', message: 'no' }

/** One store, its clock, and a worker; jobs go by the name of their task, times are ms since the start. */
export class StoreHarness {
  readonly store: Store
  readonly clock: VirtualClock
  readonly worker: number
  readonly startUs: number
  readonly #jobs: Map<string, string>
  readonly #running: Map<string, GrantedJob>

  private constructor(store: Store, clock: VirtualClock, worker: number, before?: StoreHarness) {
    this.store = store
    this.clock = clock
    this.worker = worker
    this.startUs = before?.startUs ?? store.nowUs()
    this.#jobs = before ? before.#jobs : new Map<string, string>()
    this.#running = before ? before.#running : new Map<string, GrantedJob>()
  }

  /** @param wrap puts something between the harness and its store. */
  static async open(
    backend: StoreBackend,
    wrap: (store: Store) => Store = (store) => store,
    settings: StoreSettings = {},
  ): Promise<StoreHarness> {
    const clock = new VirtualClock()
    const store = wrap(await backend.open(clock, settings))
    return new StoreHarness(store, clock, await store.join(['q'], LONG_US))
  }

  /** The same storage and clock through another store. */
  async reopen(backend: StoreBackend, settings: StoreSettings = {}): Promise<StoreHarness> {
    const store = await backend.reopen?.(this.clock, settings)
    if (!store) throw new TypeError(`${backend.name} cannot be opened twice`)
    return new StoreHarness(store, this.clock, await store.join(['q'], LONG_US), this)
  }

  /** Sets the clock, in ms since the start; fractions are µs. */
  at(ms: number): void {
    this.clock.set(Math.round(ms * 1000))
  }

  /** ms since the start, of an instant of the store's clock. */
  ms(us: number | null | undefined): number | null {
    return us === null || us === undefined ? null : (us - this.startUs) / 1000
  }

  /** An instant of the store's clock. */
  us(ms: number): number {
    return this.startUs + Math.round(ms * 1000)
  }

  define(policies: Readonly<Record<string, Policy>>, version = 0): Promise<string[]> {
    return this.store.define(
      Object.entries(policies).map(([name, policy]) => ({ name, policy: normalisePolicy(policy, name), version })),
    )
  }

  /** Declares the limits of a queue as a whole, as code does; whether that changes what its starts need. */
  async declare(queue: string, limits: readonly string[], version = 0): Promise<boolean> {
    return (await this.store.declareQueues([{ queue, uses: usesOf(limits), version }])).includes(queue)
  }

  /** Begins an override of `limit` or `limit:key`; `untilMs` since the start. */
  override(target: string, change: PolicyChange, untilMs?: number): Promise<boolean> {
    return this.#change(target, 'override', change, untilMs)
  }

  clear(target: string): Promise<boolean> {
    return this.#change(target, 'override', null)
  }

  pause(target: string, untilMs?: number): Promise<boolean> {
    return this.#change(target, 'pause', { concurrency: 0 }, untilMs)
  }

  resume(target: string): Promise<boolean> {
    return this.#change(target, 'pause', null)
  }

  #change(target: string, kind: 'override' | 'pause', change: PolicyChange | null, untilMs?: number): Promise<boolean> {
    const [limit = '', key = null] = target.split(':')
    const untilUs = untilMs === undefined ? null : this.us(untilMs)
    return this.store.override({ limit, key, kind, change, untilUs, by: null, reason: null })
  }

  job(task: string, spec: JobSpec = {}): NewJob {
    return {
      id: uuidv7(),
      task,
      queue: spec.queue ?? 'q',
      priority: spec.priority ?? 0,
      input: spec.input ?? 'null',
      uses: usesOf(spec.limits ?? []),
      maxAttempts: spec.attempts ?? 3,
      runAtMs: spec.runAtMs ?? null,
      ...(spec.delayUs !== undefined && { delayUs: spec.delayUs }),
      expiresAtMs: spec.expiresAtMs ?? null,
      unique: spec.unique ? { onConflict: 'ignore', withinUs: null, states: null, ...spec.unique } : null,
      extra: spec.extra ? JSON.stringify(spec.extra) : null,
      ...(spec.occurrence && { occurrence: spec.occurrence }),
      ...(spec.fairKey !== undefined && { fairKey: spec.fairKey }),
      ...(spec.share !== undefined && { share: spec.share }),
    }
  }

  /** Enqueues jobs that are named `name1`, `name2`, …; or one that is named as given. */
  async add(name: string, spec: JobSpec = {}, count?: number): Promise<void> {
    const names = count === undefined ? [name] : Array.from({ length: count }, (_, i) => `${name}${i + 1}`)
    const jobs = names.map((each) => this.job(each, spec))
    const answers = await this.store.enqueue(jobs)
    expect(answers.map((answer) => answer.kind)).toEqual(names.map(() => 'created'))
    for (const [i, each] of names.entries()) this.#jobs.set(each, jobs[i]!.id)
  }

  /** A flow of jobs that are named as given; without `after`, they wait for each other as its kind says. */
  newFlow({ kind = 'group', jobs, callbacks = {} }: FlowSpec): NewFlow {
    const names = Object.keys(jobs)
    const byKind = dependencies(kind, names.length)
    const nodes = Object.values(jobs).map((spec, i) => ({
      job: this.job(names[i]!, spec),
      delayUs: spec.delayMs === undefined ? null : spec.delayMs * 1000,
      after: spec.after?.map((name) => names.indexOf(name)) ?? byKind[i]!,
    }))
    const called: Partial<Record<Callback, FlowJob>> = {}
    for (const [callback, name] of Object.entries(callbacks) as [Callback, string][])
      called[callback] = { job: this.job(name), delayUs: null }
    for (const { job } of [...nodes, ...Object.values(called)]) this.#jobs.set(job.task, job.id)
    return { id: uuidv7(), kind, name: null, nodes, callbacks: called, extra: null }
  }

  /** Starts a flow; answers its id. */
  async flow(spec: FlowSpec): Promise<string> {
    const flow = this.newFlow(spec)
    await this.store.startFlow(flow)
    return flow.id
  }

  /** A chain of jobs by name. */
  chain(...names: string[]): Promise<string> {
    return this.flow({ kind: 'chain', jobs: Object.fromEntries(names.map((name) => [name, {}])) })
  }

  async flowOf(id: string): Promise<FlowRecord> {
    const flow = await this.store.getFlow(id)
    if (!flow) throw new RangeError(`The flow ${id} is gone`)
    return flow
  }

  /** Its state, and how many of its jobs have completed, were discarded, were cancelled. */
  async tally(id: string): Promise<[string, number, number, number]> {
    const { state, completed, discarded, cancelled } = await this.flowOf(id)
    return [state, completed, discarded, cancelled]
  }

  /** Enqueues one job and says what came of it; it takes the name if it is stored. */
  async offer(name: string, spec: JobSpec = {}): Promise<Enqueued> {
    const job = this.job(name, spec)
    const [answer] = await this.store.enqueue([job])
    if (answer!.kind === 'created') this.#jobs.set(name, job.id)
    return answer!
  }

  id(name: string): string {
    const id = this.#jobs.get(name)
    if (id === undefined) throw new RangeError(`There is no job ${name}`)
    return id
  }

  async get(name: string): Promise<JobRecord> {
    const job = await this.store.get(this.id(name))
    if (!job) throw new RangeError(`The job ${name} is gone`)
    return job
  }

  async states(...names: string[]): Promise<string[]> {
    return Promise.all(names.map(async (name) => (await this.get(name)).state))
  }

  async explain(name: string): Promise<Explanation> {
    const explanation = await this.store.explain(this.id(name))
    if (!explanation) throw new RangeError(`The job ${name} is gone`)
    return explanation
  }

  async bucket(limit: string, key = ''): Promise<BucketReport> {
    const [report] = await this.store.inspect(limit, key)
    if (!report) throw new RangeError(`There is no limit ${limit}`)
    return report
  }

  async claim(spec: ClaimSpec = {}): Promise<Claim> {
    const queues = spec.queues ?? { [spec.queue ?? 'q']: spec.slots ?? 100 }
    const claim = await this.store.claim(() => ({
      worker: spec.worker ?? this.worker,
      leaseUs: (spec.leaseMs ?? LEASE_MS) * 1000,
      ...(spec.tasks && { tasks: spec.tasks }),
      ...(spec.elsewhere && { elsewhere: spec.elsewhere }),
      ...(spec.eventWindowMs !== undefined && { eventWindowUs: spec.eventWindowMs * 1000 }),
      ...(spec.aheadMs !== undefined && { aheadUs: spec.aheadMs * 1000 }),
      ...(spec.holds && { holds: usesOf(spec.holds).map(({ limit, key }) => ({ limit, key })) }),
      queues: Object.entries(queues).map(([queue, slots]) => ({
        queue,
        slots,
        ...(spec.aheadMs !== undefined && { ahead: spec.ahead ?? slots }),
      })),
    }))
    for (const job of claim.jobs) this.#running.set(job.task, job)
    return claim
  }

  /** The names of the jobs that one claim starts, in order. */
  async start(spec: ClaimSpec | number = {}): Promise<string[]> {
    return (await this.claim(typeof spec === 'number' ? { slots: spec } : spec)).jobs.map((job) => job.task)
  }

  /** When a claim that starts nothing says to come again, in ms since the start. */
  async wake(spec: ClaimSpec = {}): Promise<number | null> {
    const claim = await this.claim(spec)
    expect(claim.jobs.map((job) => job.task)).toEqual([])
    return this.ms(claim.nextWakeUs)
  }

  /** The last run of a job that was claimed here. */
  run(name: string): GrantedJob {
    const job = this.#running.get(name)
    if (!job) throw new RangeError(`The job ${name} was never claimed`)
    return job
  }

  /** Without the instant of the end, which is now, and without word of its permits, which not all stores give. */
  async settle(
    name: string,
    what: Outcome = { kind: 'complete', result: null },
    worker: number = this.worker,
  ): Promise<SettleResult> {
    const { seq, attempt } = this.run(name)
    const settled = await this.store.settle(worker, { seq, attempt, ...what })
    if (settled.kind === 'lost') return settled
    const { atUs, returned = false, ...rest } = settled
    expect(atUs).toBe(this.store.nowUs())
    if (this.store.notifiesOwnWrites) expect(returned).toBe(false)
    return rest
  }

  async complete(...names: string[]): Promise<void> {
    const answers = await Promise.all(names.map((name) => this.settle(name)))
    expect(answers).toMatchObject(names.map(() => ({ kind: 'settled', state: 'completed' })))
  }

  retry(name: string, delayMs = 0): Promise<SettleResult> {
    return this.settle(name, { kind: 'retry', delayUs: delayMs * 1000, error: FAILURE })
  }

  async cancel(name: string): Promise<string> {
    return (await this.store.cancel(this.id(name))).kind
  }

  /** The recovered jobs, as `[name, state]`. */
  async recover(): Promise<string[][]> {
    return (await this.store.recover()).map((job: Recovered) => [job.task, job.state])
  }
}

type WithoutRun<T> = T extends unknown ? Omit<T, 'seq' | 'attempt'> : never
/** A settlement without the run that it speaks of. */
export type Outcome = WithoutRun<Settlement>

/** Gives every test of the surrounding block a harness of its own. */
export function eachHarness(backend: StoreBackend): () => StoreHarness {
  let harness: StoreHarness
  beforeEach(async () => {
    harness = await StoreHarness.open(backend)
  })
  afterEach(() => harness.store.close())
  return () => harness
}

/** Reads `name:key*weight`; in lane order, as a store is handed them. */
export function usesOf(texts: readonly string[]): BucketUse[] {
  const uses = texts.map((text) => {
    const [, limit = '', key = '', weight = '1'] = /^([^:*]+)(?::([^*]*))?(?:\*(\d+))?$/.exec(text) ?? []
    return { limit, key, weight: Number(weight) }
  })
  return inLaneOrder(uses)
}
