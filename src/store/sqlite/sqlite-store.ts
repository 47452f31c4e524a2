import type { Clock } from '../../base/clock.ts'
import { isFinal, mayPass, SluiceError } from '../../base/errors.ts'
import { createIds } from '../../base/ids.ts'
import { SqliteConnection, type Phase } from '../../database/sqlite.ts'
import type { NewJob, SettleResult, Settlement } from '../../jobs/job.ts'
import type { Change, Claim, ClaimRequest, Durability, Enqueued, Retention, Store } from '../contract/store.ts'
import { backlog } from './backlog.ts'
import { cancel } from './cancel.ts'
import { cancelFlow } from './cancel-flow.ts'
import { claim } from './claim.ts'
import type { Context } from './context.ts'
import { define } from './define.ts'
import { enqueue, transactionRefused } from './enqueue.ts'
import { explain } from './explain.ts'
import { get, list } from './get.ts'
import { inspect } from './inspect.ts'
import { endOverdue, override } from './override.ts'
import { overrides } from '../shared/overrides.ts'
import { calibrate, charge, penalizeBucket } from './penalize.ts'
import { Policies } from './limit-timelines.ts'
import { RemoteVerbs } from './remote-verbs.ts'
import { promote } from './promote.ts'
import { declareQueues } from './queues.ts'
import { prune } from './prune.ts'
import { afterReboot } from './reboot.ts'
import { recover } from './recover.ts'
import { release } from './release.ts'
import { retry } from './retry.ts'
import { schedule, schedules, unschedule } from './schedule.ts'
import { MIGRATIONS } from './sql/embedded.ts'
import { settle } from './settle.ts'
import type { SettleRequest } from '../shared/settle-once.ts'
import { startFlow } from './start-flow.ts'
import { setAside } from './set-aside.ts'
import { UnreadableRows } from '../shared/unreadable-rows.ts'
import { definitionsIn } from '../shared/timelines.ts'
import { StoreClock } from './store-clock.ts'
import { OtherProcesses } from './watch.ts'
import { Yields } from '../shared/yields.ts'
import { heartbeat, join, leave } from './workers.ts'

/** Options of a SQLite store. */
export interface SqliteStoreOptions {
  /** A file path, or `:memory:`. */
  readonly path: string
  readonly clock: Clock
  readonly durability: Durability
  readonly retention: Retention
  /** Priorities age by one step per this interval in µs; null: they do not; absent: as stored. */
  readonly ageingUs?: number | null
  /** The longest wait for a file that another process locks, in ms; default 10 s. */
  readonly busyMs?: number
}

/** The order of phases in a transaction: first calls that free budgets and slots, then arrivals, then claims. */
const FREES = 0
const CHANGES = 1
const TAKES = 2

/** The embedded store: one SQLite file, which several processes of one machine may share. */
export class SqliteStore extends RemoteVerbs implements Store {
  readonly backend = 'sqlite'
  readonly unresolved = null
  readonly #db: SqliteConnection
  readonly #others: OtherProcesses
  readonly #unreadable: UnreadableRows
  readonly #storeClock: StoreClock
  readonly #context: Context
  /** Workers that joined through this store: all other registered ones are company. */
  readonly #workers = new Set<number>()
  readonly #ageingUs: number | null | undefined
  #settling: SettleBatch | null = null

  constructor(options: SqliteStoreOptions) {
    super()
    const { clock, path, durability, retention, busyMs } = options
    this.#ageingUs = options.ageingUs
    this.#db = new SqliteConnection({ path, sync: durability === 'power', ...(busyMs !== undefined && { busyMs }) })
    this.#storeClock = new StoreClock(clock)
    const ids = {
      queues: new Map<string, number>(),
      queueNames: new Map<number, string>(),
    }
    const policies = new Policies(this.#db)
    this.#context = {
      db: this.#db,
      clock: this.#storeClock,
      policies,
      retention,
      ids,
      newId: createIds(clock),
      turns: { given: 0 },
      unlimitedNext: new Map(),
      declared: new Map(),
      unreadable: new Set(),
      yields: new Yields(),
      adopted: new Map(),
    }
    this.#others = new OtherProcesses(this.#context, clock, this.#workers)
    this.#unreadable = new UnreadableRows(
      () => clock.now(),
      () => this.#db.write(CHANGES, () => setAside(this.#context)),
      () => policies.aside,
    )
    this.#db.onRollback(() => {
      policies.forget()
      for (const map of Object.values(ids)) map.clear()
      this.#context.adopted.clear()
    })
  }

  protected get context(): Context {
    return this.#context
  }

  open(): Promise<void> {
    return this.#db.write(FREES, () => {
      const [version] = this.#db.get<[number]>('PRAGMA user_version') as [number]
      if (version > MIGRATIONS.length)
        throw new SluiceError(
          'store.version',
          `The store was written by a newer Sluice (schema ${version}, this one knows ${MIGRATIONS.length}). Update Sluice, or open another file.`,
        )
      for (const migration of MIGRATIONS.slice(version)) this.#db.exec(migration)
      this.#db.exec(`PRAGMA user_version = ${MIGRATIONS.length}`)
      if (this.#storeClock.anchor(this.#db)) afterReboot(this.#context)
      const { policies } = this.#context
      policies.refresh()
      if (this.#ageingUs !== undefined) policies.age(this.#ageingUs, this.nowUs())
    })
  }

  close({ now = false }: { readonly now?: boolean } = {}): Promise<void> {
    this.#others.stop()
    return this.#db.close(now)
  }

  nowUs(): number {
    return this.#storeClock.nowUs()
  }

  get pending(): boolean {
    return this.#db.pending
  }

  watch(listener: (change: Change) => void): () => void {
    return this.#others.watch(listener)
  }

  /**
   * Not async: an async function would answer some microtasks late, after the claim of the same commit has reported
   * that the jobs have started.
   */
  enqueue(jobs: readonly NewJob[], tx?: unknown): Promise<Enqueued[]> {
    if (tx !== undefined) return Promise.reject(transactionRefused())
    return this.#db.write(CHANGES, () => enqueue(this.#context, jobs))
  }

  get: Store['get'] = (id) => this.#read(() => get(this.#context, id))
  list: Store['list'] = (query) => this.#read(() => list(this.#context, query))
  explain: Store['explain'] = (id) => this.#readLimits(() => explain(this.#context, id))
  cancel: Store['cancel'] = (id) => this.#mend(CHANGES, () => cancel(this.#context, id))
  retry: Store['retry'] = (id) => this.#mend(CHANGES, () => retry(this.#context, id))
  prune: Store['prune'] = (limit) => this.#mend(CHANGES, () => prune(this.#context, limit))

  startFlow: Store['startFlow'] = (flow) => this.#mend(CHANGES, () => startFlow(this.#context, flow))
  cancelFlow: Store['cancelFlow'] = (id) => this.#mend(CHANGES, () => cancelFlow(this.#context, id))

  claim(request: () => ClaimRequest): Promise<Claim> {
    return this.#unreadable.around(() => this.#db.write(TAKES, () => claim(this.#context, request())))
  }

  /**
   * One statement of the next commit writes the settlements made during this one; one that it cannot write fails alone.
   */
  async settle(worker: number, settlement: Settlement): Promise<SettleResult> {
    const batch = (this.#settling ??= this.#newBatch())
    const request = { worker, settlement }
    const at = batch.requests.push(request) - 1
    try {
      return (await batch.answers)[at] as SettleResult
    } catch (error) {
      if (batch.requests.length === 1 || mayPass(error) || isFinal(error)) throw error
      return (await this.#db.write(FREES, () => settle(this.#context, [request])))[0] as SettleResult
    }
  }

  /** Retries work without the unreadable rows that made it fail. */
  #mend<T>(turn: Phase, work: () => T): Promise<T> {
    return this.#unreadable.mend(() => this.#db.write(turn, work))
  }

  #newBatch(): SettleBatch {
    const requests: SettleRequest[] = []
    // Closes when its transaction begins, or when none could begin.
    const close = (): void => {
      if (this.#settling?.requests === requests) this.#settling = null
    }
    const answers = this.#mend(FREES, () => {
      close()
      return settle(this.#context, requests)
    })
    answers.catch(close)
    return { requests, answers }
  }

  release: Store['release'] = (worker, runs) => this.#mend(FREES, () => release(this.#context, worker, runs))

  promote: Store['promote'] = (limit) =>
    this.#mend(CHANGES, () => promote(this.#context, this.#storeClock.read(), limit))
  recover: Store['recover'] = () => this.#mend(FREES, () => recover(this.#context))

  define: Store['define'] = (limits) => this.#mend(CHANGES, () => define(this.#context, limits))
  declareQueues: Store['declareQueues'] = (queues) => this.#mend(CHANGES, () => declareQueues(this.#context, queues))
  penalize: Store['penalize'] = (limit, key, untilUs, worker) =>
    this.#db.write(CHANGES, () => penalizeBucket(this.#context, limit, key, untilUs, this.nowUs(), worker))
  calibrate: Store['calibrate'] = (limit, key, told, worker) =>
    this.#db.write(CHANGES, () => calibrate(this.#context, limit, key, told, worker))
  charge: Store['charge'] = (limit, key, units, chargedAtUs, worker) =>
    this.#db.write(FREES, () => charge(this.#context, limit, key, units, chargedAtUs, worker))
  inspect: Store['inspect'] = (limit, key) => this.#readLimits(() => inspect(this.#context, limit, key))
  unreadable: Store['unreadable'] = () => this.#readLimits(() => this.#context.policies.aside)

  limits: Store['limits'] = () => this.#readLimits(() => definitionsIn(this.#context.policies))
  override: Store['override'] = (request) => this.#db.write(CHANGES, () => override(this.#context, request))
  overrides: Store['overrides'] = (limit) => this.#readLimits(() => overrides(this.#context.policies, limit))

  schedule: Store['schedule'] = (given) => this.#db.write(CHANGES, () => schedule(this.#context, given))
  schedules: Store['schedules'] = () => this.#read(() => schedules(this.#context))
  unschedule: Store['unschedule'] = (name) => this.#db.write(CHANGES, () => unschedule(this.#context, name))

  backlog: Store['backlog'] = (limit, key) => this.#read(() => backlog(this.#context, limit, key))

  async join(queues: readonly string[], leaseUs: number, tasks: readonly string[] | null = null): Promise<number> {
    const worker = await this.#db.write(CHANGES, () => join(this.#context, queues, leaseUs, tasks))
    this.#workers.add(worker)
    return worker
  }

  heartbeat: Store['heartbeat'] = (worker, runs, leaseUs) =>
    this.#db.write(FREES, () => heartbeat(this.#context, worker, runs, leaseUs))

  leave(worker: number): Promise<void> {
    this.#workers.delete(worker)
    return this.#db.write(FREES, () => leave(this.#context, worker))
  }

  async #read<T>(work: () => T): Promise<T> {
    return work()
  }

  /** Runs a report on limits: it first ends an override whose time is over, if no claim has done so yet. */
  async #readLimits<T>(work: () => T): Promise<T> {
    const { policies } = this.#context
    policies.refresh()
    if (policies.nextEndUs <= this.nowUs()) await this.#db.write(CHANGES, () => endOverdue(this.#context))
    return work()
  }
}

interface SettleBatch {
  readonly requests: SettleRequest[]
  readonly answers: Promise<SettleResult[]>
}
