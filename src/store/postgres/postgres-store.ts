import { UnreadableRows } from '../shared/unreadable-rows.ts'
import { setAside } from './set-aside.ts'
import type { Clock } from '../../base/clock.ts'
import { systemClock } from '../../base/clock.ts'
import { PostgresDatabase, type Statements } from '../../database/postgres.ts'
import type { NewJob, SettleResult, Settlement } from '../../jobs/job.ts'
import type { CancelAnswer, Change, Claim, ClaimRequest, Enqueued, Store } from '../contract/store.ts'
import { backlog } from './backlog.ts'
import type { Batch } from './batch.ts'
import { cancel } from './cancel.ts'
import { claim } from './claim.ts'
import { type Context, createContext, readClock } from './context.ts'
import { declareQueues, define } from './define.ts'
import { explain } from './explain.ts'
import { isUuid } from '../shared/sql.ts'
import { get, list } from './get.ts'
import { useTestClock } from './test-clock.ts'
import { inspect } from './inspect.ts'
import { begin, currentLimits, definitions } from './limit-timelines.ts'
import { checkExisting, migrate, pendingMigrations } from './migrate.ts'
import type { PostgresStoreOptions } from './options.ts'
import { endIfOverdue, override, pruneOverrides } from './override.ts'
import { overrides } from '../shared/overrides.ts'
import { calibrate, charge, penalize } from './penalize.ts'
import { RemoteVerbs, type StoreAccess } from './remote-verbs.ts'
import { pruneBuckets, pruneFlows, pruneJobs } from '../shared/prune.ts'
import { pruneAccess, pruneLanes, pruneViews } from './prune.ts'
import { READ_GIVE_UP_MS, whenReachable } from './retry-connection.ts'
import { promote, recover } from './recover.ts'
import { release } from './release.ts'
import { retry } from './retry.ts'
import { schedule, schedules, unschedule } from './schedule.ts'
import { batchSettlements, closesBucket, settleAndClose } from './settle.ts'
import type { SettleRequest } from '../shared/settle-once.ts'
import type { TestClock } from './store-clock.ts'
import { drainArrivals } from './drain-arrivals.ts'
import { batchEnqueues, enqueueWithin } from './enqueue.ts'
import { readAsync } from '../shared/reading.ts'
import type { Call, SharedVerb } from '../shared/verbs.ts'
import { accessOf } from './shared-sql.ts'
import { unresolvedIn } from './unresolved.ts'
import { Bell } from './watch.ts'
import { heartbeat, join, leave } from './workers.ts'

/** The store on PostgreSQL, for many processes on many machines. */
export class PostgresStore extends RemoteVerbs implements Store {
  readonly backend = 'postgres'
  readonly notifiesOwnWrites = true
  readonly unresolved: NonNullable<Store['unresolved']>
  readonly #db: PostgresDatabase
  readonly #clock: Clock
  readonly #context: Context
  readonly #bell: Bell
  readonly #settling: Batch<SettleRequest, SettleResult>
  readonly #enqueuing: Batch<NewJob, Enqueued>
  readonly #ageingUs: number | null | undefined
  readonly #unreadable: UnreadableRows
  #given: TestClock | null = null

  constructor(options: PostgresStoreOptions) {
    super()
    const { clock, connection, retention, schema = 'sluice', connections = 8, notify = true } = options
    this.#clock = clock
    this.#ageingUs = options.ageingUs
    const given = clock !== systemClock
    this.#db = new PostgresDatabase({
      source: connection,
      connections,
      schema,
      ...(given ? { times: () => this.#given?.read() ?? null } : {}),
    })
    this.#bell = new Bell(this.#db, clock, notify)
    this.#context = createContext(this.#db, clock, retention)
    this.unresolved = unresolvedIn(this.#context, this.#bell)
    this.#settling = batchSettlements(this.#context, this.#bell)
    this.#enqueuing = batchEnqueues(this.#context, clock)
    this.#unreadable = new UnreadableRows(
      () => clock.now(),
      () => this.#db.session((db) => setAside(this.#context, db)),
      () => this.#context.limits.aside,
    )
  }

  async open(): Promise<void> {
    await migrate(this.#db)
    if (this.#clock !== systemClock) this.#given = await useTestClock(this.#db, this.#clock)
    await this.#unreadable.mend(() => this.#db.transaction((db) => db.run('SELECT sluice.check_clock()')))
    await this.#unreadable.mend(() => this.#db.transaction((db) => begin(this.#context, db, this.#ageingUs)))
  }

  /**
   * Opens an existing store, and creates and upgrades nothing. @throws {SluiceError} `store.missing`, `store.version`
   */
  async openExisting(): Promise<void> {
    try {
      await checkExisting(this.#db)
    } catch (error) {
      await this.close()
      throw error
    }
  }

  /** Creates or upgrades the tables, and returns the SQL of it; `dryRun` runs none of it. */
  async upgrade(dryRun: boolean): Promise<string> {
    const sql = await pendingMigrations(this.#db)
    if (!dryRun) await migrate(this.#db)
    return sql
  }

  async close({ now = false }: { readonly now?: boolean } = {}): Promise<void> {
    this.#bell.close()
    await this.#db.close(now)
  }

  nowUs(): number {
    return this.#given?.read()[0] ?? this.#context.clock.nowUs()
  }

  get pending(): boolean {
    return this.#db.pending || this.#settling.pending || this.#enqueuing.pending || this.remotePending
  }

  protected get access(): StoreAccess {
    return { context: this.#context, clock: this.#clock, bell: this.#bell }
  }

  watch(listener: (change: Change) => void): () => void {
    return this.#bell.watch(listener)
  }

  async enqueue(jobs: readonly NewJob[], tx?: unknown): Promise<Enqueued[]> {
    if (tx !== undefined) return enqueueWithin(this.#context, this.#bell, this.#db.within(tx), jobs)
    const answers = await this.#unreadable.mend(() => this.#enqueuing.add(jobs))
    this.#bell.ring('work')
    return answers
  }

  get: Store['get'] = (id) => this.#read((db) => get(db, id))
  list: Store['list'] = (query) => this.#read((db) => list(db, query))
  explain: Store['explain'] = (id) => this.#look((db) => explain(this.#context, db, id))

  async cancel(id: string): Promise<CancelAnswer> {
    if (!isUuid(id)) return { kind: 'missing' }
    const answer = await this.#change((db) => cancel(this.#context, db, id))
    if (answer.kind !== 'missing') this.#bell.ring(answer.kind === 'requested' ? 'cancelled' : 'ended')
    return answer
  }

  async retry(id: string): Promise<boolean> {
    return isUuid(id) && this.#change((db) => retry(db, id))
  }

  /** Each kind has a transaction of its own, so that none waits for another's locks. */
  async prune(limit: number): Promise<number> {
    await this.#endOverdue()
    let gone = 0
    for (const each of [pruneJobs, pruneFlows])
      gone += await this.#db.transaction((db) => readAsync(each(pruneAccess(this.#context, db), limit)))
    for (const each of [pruneViews, pruneLanes])
      gone += await this.#db.transaction((db) => each(this.#context, db, limit))
    gone += await this.#db.transaction((db) => readAsync(pruneBuckets(pruneAccess(this.#context, db), limit)))
    gone += await this.#db.transaction((db) => pruneOverrides(this.#context, db, limit))
    return gone
  }

  async claim(request: () => ClaimRequest): Promise<Claim> {
    const claimed = await this.#unreadable.around(() => claim(this.#context, request))
    if (claimed.flows.length > 0) this.#bell.ring('work')
    return claimed
  }

  async settle(worker: number, settlement: Settlement, again = false): Promise<SettleResult> {
    const request = { worker, settlement, again }
    if (closesBucket(request)) return this.#change((db) => settleAndClose(this.#context, db, request))
    const [settled] = await this.#unreadable.mend(() => this.#settling.add([request]))
    return settled ?? { kind: 'lost' }
  }

  release: Store['release'] = (worker, runs) =>
    whenReachable(this.#clock, () => this.#change((db) => release(this.#context, db, worker, runs)))

  promote: Store['promote'] = (limit) => this.#change((db) => promote(db, limit))
  recover: Store['recover'] = () => this.#change((db) => recover(this.#context, db, this.#clock.bootId))

  define: Store['define'] = (limits) => this.#change((db) => define(this.#context, db, limits))
  declareQueues: Store['declareQueues'] = (queues) => this.#change((db) => declareQueues(this.#context, db, queues))

  penalize: Store['penalize'] = (limit, key, untilUs, worker) =>
    this.#adjust((db) => penalize(this.#context, db, { limit, key, worker }, untilUs))
  calibrate: Store['calibrate'] = (limit, key, told, worker) =>
    this.#adjust((db) => calibrate(this.#context, db, { limit, key, worker }, told))
  charge: Store['charge'] = (limit, key, units, atUs, worker) =>
    this.#adjust((db) => charge(this.#context, db, { limit, key, worker }, units, atUs))

  inspect: Store['inspect'] = (limit, key) => this.#look((db) => inspect(this.#context, db, limit, key))
  limits: Store['limits'] = () => this.#look((db) => definitions(this.#context, db))
  unreadable: Store['unreadable'] = () => this.#look(async (db) => (await currentLimits(this.#context, db)).aside)

  override: Store['override'] = (request) => this.#change((db) => override(this.#context, db, request))
  overrides: Store['overrides'] = (limit) =>
    this.#look(async (db) => overrides(await currentLimits(this.#context, db), limit))

  schedule: Store['schedule'] = (given) =>
    this.#change(async (db) => schedule(this.#context, db, await readClock(this.#context, db), given))
  schedules: Store['schedules'] = () =>
    this.#db.session(async (db) => schedules(db, await readClock(this.#context, db)))
  unschedule: Store['unschedule'] = (name) => this.#change((db) => unschedule(db, name))

  backlog: Store['backlog'] = (limit, key) => this.#look((db) => backlog(this.#context, db, limit, key))

  join: Store['join'] = (queues, leaseUs, tasks) =>
    this.#change((db) => join(this.#context, db, this.#clock.bootId, queues, leaseUs, tasks ?? null))
  heartbeat: Store['heartbeat'] = (worker, runs, leaseUs) =>
    whenReachable(
      this.#clock,
      () => this.#db.transaction((db) => heartbeat(this.#context, db, worker, runs, leaseUs)),
      leaseUs / 1000,
    )
  leave: Store['leave'] = (worker) => this.#change((db) => leave(this.#context, db, worker))

  /** Runs a read, which may run twice: the first use of a connection finds out that it died unnoticed. */
  #read<T>(work: (db: Statements) => Promise<T>): Promise<T> {
    return whenReachable(this.#clock, () => this.#db.session(work), READ_GIVE_UP_MS)
  }

  /** Runs a transaction that may let jobs start. */
  async #change<T>(work: (db: Statements) => Promise<T>): Promise<T> {
    const result = await this.#unreadable.mend(() => this.#db.transaction(work))
    this.#bell.ring('work')
    return result
  }

  protected looks<Input extends unknown[], Answer>(verb: SharedVerb<Input, Answer>): Call<Input, Answer> {
    return (...input) => this.#look((db) => readAsync(verb(accessOf(this.#context, db), ...input)))
  }

  /** Runs a report on waits and limits: arrivals join their lanes first, and an override whose time is over ends. */
  async #look<T>(work: (db: Statements) => Promise<T>): Promise<T> {
    await this.#db.autocommit((db) => drainArrivals(db))
    return this.#unreadable.mend(async () => {
      await this.#endOverdue()
      return this.#db.session(work)
    })
  }

  /**
   * Runs a change of buckets, after writing the ends of overrides: a bucket's state belongs to the policy of its last
   * write.
   */
  async #adjust<T>(work: (db: Statements) => Promise<T>): Promise<T> {
    await this.#endOverdue()
    return this.#change(work)
  }

  async #endOverdue(): Promise<void> {
    await this.#db.session((db) => endIfOverdue(this.#context, db))
  }
}
