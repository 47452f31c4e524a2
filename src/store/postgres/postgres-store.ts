import type { FlowMemory } from '../../jobs/flow-memory.ts'
import { UnreadableRows } from '../shared/unreadable-rows.ts'
import { setAside } from './set-aside.ts'
import { type Clock, systemClock } from '../../base/clock.ts'
import type { SluiceError } from '../../base/errors.ts'
import { codeOf } from '../../database/postgres-error.ts'
import { PostgresDatabase } from '../../database/postgres.ts'
import { byIndexes } from '../../database/postgres-transaction.ts'
import type { Statements } from '../../database/statements.ts'
import type { NewJob } from '../../jobs/job.ts'
import type { SettleResult, Settlement } from '../../jobs/settlement.ts'
import type { Registration, RemoteWorker } from '../contract/workers.ts'
import { withoutTickets } from '../contract/budgets.ts'
import type { Change, Claim, ClaimRequest, Enqueued, Store, Retention } from '../contract/store.ts'
import { Batch } from './batch.ts'
import { claim } from './claim.ts'
import { type Context, createContext, readClock } from './context.ts'
import type { Access } from '../shared/sql.ts'
import { useTestClock } from './test-clock.ts'
import { currentLimits } from './limit-timelines.ts'
import { diagnose } from './diagnose.ts'
import { checkExisting, migrate, pendingMigrations, schemaOf } from './migrate.ts'
import { BatchedPushes } from './batched-push.ts'
import { clear } from './clear.ts'
import { queueCounts } from './queues.ts'
import { signalFlow } from './signal-flow.ts'
import { startFlow } from './start-flow.ts'
import type { JobDetails } from '../contract/remote-jobs.ts'
import { pruneEvents } from '../shared/event-log.ts'
import { pruneBuckets, pruneFlows, pruneJobs } from '../shared/prune.ts'
import { pruneAccess, pruneLanes, pruneViews } from './prune.ts'
import { READ_GIVE_UP_MS, whenReachable } from './retry-connection.ts'
import { promote, recover } from './recover.ts'
import { release } from './release.ts'
import { batchSettlements, closesBucket, settleAndClose } from './settle.ts'
import type { SettleRequest } from '../shared/settle-once.ts'
import type { TestClock } from './store-clock.ts'
import { drainArrivals } from './drain-arrivals.ts'
import type { ClaimCarrier } from './claim-carrier.ts'
import { batchEnqueues, enqueueWithin } from './enqueue.ts'
import { type Reading, readAsync } from '../shared/reading.ts'
import type { Drive } from '../shared/drive.ts'
import { OverrideOver } from '../shared/budgets/requests.ts'
import { SharedVerbs } from '../shared/verbs.ts'
import { pruneOverrides, setAgeing } from '../shared/limits.ts'
import { accessOf, endOverdue } from './shared-sql.ts'
import { unresolvedIn } from './unresolved.ts'
import { Notifier } from './watch.ts'
import { join, leave, type Registered, registerWorkers } from '../shared/workers.ts'
import { heartbeat } from './workers.ts'
import type { NewWorkflow } from '../../jobs/workflow.ts'
import type { StartedWorkflow } from '../contract/workflows.ts'
import { FlowEnds } from './flow-ends.ts'
import { flowMemories } from './flow-memory.ts'
import { batchMoves } from './moves.ts'
import { batchStarts, startWithin } from './start-workflows.ts'
import { isMove } from '../shared/workflows/move.ts'
import type { MoveRequest } from '../shared/workflows/runs.ts'
import type { PgPool } from '../../database/pg.ts'

/** The store on PostgreSQL, for many processes on many machines. */
export class PostgresStore extends SharedVerbs implements Store {
  readonly backend = 'postgres'
  readonly aheadUs = 50_000
  readonly retention: Retention
  readonly notifiesOwnWrites = true
  readonly unresolved: NonNullable<Store['unresolved']>
  readonly #db: PostgresDatabase
  readonly #clock: Clock
  readonly #context: Context
  readonly #notifier: Notifier
  readonly #settling: Batch<SettleRequest, SettleResult>
  readonly #moving: Batch<MoveRequest, SettleResult>
  readonly #starting: ClaimCarrier<NewWorkflow, StartedWorkflow>
  /** One query reads the memories of all flows that are entered while others are in flight. */
  readonly #entering = new Batch<number, FlowMemory | null>((seqs) =>
    this.#read((db) => flowMemories(this.#context, db, seqs)),
  )
  readonly #ends: FlowEnds
  readonly #enqueuing: ClaimCarrier<NewJob, Enqueued>
  readonly #pushing: BatchedPushes
  /** One query reads all jobs requested while others are in flight. */
  readonly #details = new Batch<string, JobDetails | null>((ids) => this.jobDetails(ids))
  /** One transaction registers the workers that fetch while others are in flight. */
  readonly #registering = new Batch<RemoteWorker, Registration>(async (workers) => {
    const register = (db: Statements): Promise<Registered> =>
      readAsync(registerWorkers(accessOf(this.#context, db), workers))
    const { registrations, woke } = await whenReachable(this.#clock, () => this.#transaction(register), READ_GIVE_UP_MS)
    if (woke) this.#notifier.notify('work')
    return [...registrations]
  })
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
      // Without LISTEN a pooler may lend each transaction another process of the server.
      prepares: notify,
      ...(given ? { times: () => this.#given?.read() ?? null } : {}),
    })
    this.#notifier = new Notifier(this.#db, clock, notify)
    this.retention = retention
    this.#context = createContext(this.#db, clock, retention)
    this.unresolved = unresolvedIn(this.#context, this.#notifier)
    this.#ends = new FlowEnds(this.#context, clock, this.#notifier)
    this.#settling = batchSettlements(this.#context, this.#notifier, this.#ends)
    this.#moving = batchMoves(this.#context, this.#notifier, this.#ends)
    this.#starting = batchStarts(this.#context, clock, this.#notifier)
    this.#enqueuing = batchEnqueues(this.#context, clock, this.#notifier)
    this.#pushing = new BatchedPushes(this.#context, clock)
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
    await this.#unreadable.mend(() => this.#db.transaction((db) => this.#begin(db)))
  }

  /** Opens an existing store; creates and upgrades nothing. @throws {SluiceError} `store.missing`, `store.version` */
  async openExisting(): Promise<void> {
    this.#db.readOnlyLasts = true
    try {
      await checkExisting(this.#db)
    } catch (error) {
      await this.close()
      throw error
    }
  }

  /** Checks that `open` could do its work, and changes nothing. @throws {SluiceError} `store.version`, `store.io` */
  async check(): Promise<void> {
    await pendingMigrations(this.#db)
    await (await import('./check-startable.ts')).checkStartable(this.#db)
  }

  /** Creates or upgrades the tables, and returns the SQL of it; `dryRun` runs none of it. */
  async upgrade(dryRun: boolean): Promise<string> {
    const sql = await pendingMigrations(this.#db)
    if (!dryRun) await migrate(this.#db)
    return sql
  }

  async close({ now = false }: { readonly now?: boolean } = {}): Promise<void> {
    this.#notifier.close()
    await this.#db.close(now)
  }

  nowUs(): number {
    return this.#given?.read()[0] ?? this.#context.clock.nowUs()
  }

  get pending(): boolean {
    return (
      this.#db.pending ||
      this.#notifier.pending ||
      this.#settling.pending ||
      this.#moving.pending ||
      this.#starting.pending ||
      this.#entering.pending ||
      this.#ends.pending ||
      this.#enqueuing.pending ||
      this.#details.pending ||
      this.#registering.pending ||
      this.#pushing.pending
    )
  }

  watch(listener: (change: Change, isOwn: boolean) => void, warned?: (error: SluiceError) => void): () => void {
    return this.#notifier.watch(listener, warned)
  }

  async enqueue(jobs: readonly NewJob[], tx?: unknown): Promise<Enqueued[]> {
    if (tx !== undefined) return enqueueWithin(this.#context, this.#notifier, this.#db.within(tx), jobs)
    return this.#unreadable.mend(() => this.#enqueuing.add(jobs))
  }

  get takesClaim(): boolean {
    return this.#enqueuing.takesClaim || this.#starting.takesClaim
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
    gone += await this.#db.transaction((db) => readAsync(pruneOverrides(accessOf(this.#context, db), limit)))
    await this.#db.transaction((db) => readAsync(pruneEvents(accessOf(this.#context, db))))
    return gone
  }

  async claim(request: () => ClaimRequest): Promise<Claim> {
    const claimed = await this.#unreadable.around(
      async () =>
        (await (this.#enqueuing.claim(request) ?? this.#starting.claim(request))) ?? claim(this.#context, request),
    )
    if (claimed.wakesOthers) this.#notifier.notify('work')
    if (claimed.rejected.length === 0) {
      if (claimed.flows.length > 0) this.#notifier.notify('work')
      return claimed
    }
    const { news } = await this.#ends.apply()
    this.#notifier.notify('work')
    return { ...claimed, flows: [...claimed.flows, ...news.values()] }
  }

  async settle(worker: number, settlement: Settlement, again = false): Promise<SettleResult> {
    const request = { worker, settlement, again }
    if (closesBucket(request)) return this.#change((db) => settleAndClose(this.#context, db, request))
    const add = (): Promise<SettleResult[]> =>
      isMove(request) ? this.#moving.add([request]) : this.#settling.add([request])
    const [settled] = await this.#unreadable.mend(add)
    return settled ?? { kind: 'lost' }
  }

  release: Store['release'] = (worker, runs) =>
    whenReachable(this.#clock, () => this.#change((db) => release(this.#context, db, worker, runs)))

  promote: Store['promote'] = (limit) => this.#change((db) => promote(db, limit))
  recover: Store['recover'] = async () => {
    const recovered = await this.#change((db) => recover(this.#context, db))
    const news = [...(await this.#ends.apply()).news.values()]
    // A main job has the id of its flow.
    return recovered.map((job) => {
      const flow = news.find(({ id }) => id === job.id)
      return flow ? { ...job, flow } : job
    })
  }

  startFlow: Store['startFlow'] = async (flow) => {
    await this.#read((db, again) => startFlow(this.#context, db, flow, again))
    this.#notifier.notify('work')
  }

  startWorkflows: Store['startWorkflows'] = async (flows, tx) => {
    if (tx !== undefined) return startWithin(this.#context, this.#notifier, this.#db.within(tx), flows)
    return this.#unreadable.mend(() => this.#starting.add(flows))
  }

  override signalFlow: Store['signalFlow'] = async (...given) => {
    const { answer, woke } = await this.#unreadable.mend(() => this.#db.autocommit((db) => signalFlow(db, ...given)))
    if (woke) this.#notifier.notify('work')
    return answer
  }

  override enterFlow: Store['enterFlow'] = async (seq) => (await this.#entering.add([seq]))[0] ?? null

  push: Store['push'] = async (jobs, limits) => {
    const answer = await this.#pushing.add({ jobs, limits })
    if (answer.kind === 'stored') this.#notifier.notify('work')
    return answer
  }

  override details: Store['details'] = async (id) => (await this.#details.add([id]))[0] ?? null

  registerWorker: Store['registerWorker'] = async (worker) => (await this.#registering.add([worker]))[0] as Registration

  queueCounts: Store['queueCounts'] = async (queue) => withoutTickets(await this.#read((db) => queueCounts(db, queue)))
  diagnose: Store['diagnose'] = () => this.#read((db) => diagnose(db, this.#clock))
  schema: Store['schema'] = () => this.#db.session(schemaOf)
  clear: Store['clear'] = () => this.#persist((db) => clear(this.#context, db))

  join: Store['join'] = (...given) => this.#change((db) => readAsync(join(accessOf(this.#context, db), ...given)))
  heartbeat: Store['heartbeat'] = (worker, runs, leaseUs) =>
    whenReachable(
      this.#clock,
      () => this.#db.transaction((db) => heartbeat(this.#context, db, worker, runs, leaseUs)),
      leaseUs / 1000,
    )
  leave: Store['leave'] = (worker) => this.#change((db) => readAsync(leave(accessOf(this.#context, db), worker)))

  protected notify(change: 'cancelled' | 'ended' | 'work'): void {
    this.#notifier.notify(change)
  }

  protected async drive<T>(how: Drive, work: (access: Access) => Reading<T>): Promise<T> {
    const run = (db: Statements): Promise<T> => readAsync(work(accessOf(this.#context, db)))
    if (how === 'read' || how === 'keep') return this.#read(run)
    if (how === 'page') return this.#read((db) => byIndexes(db, run))
    if (how === 'look') return this.#look(run)
    if (how === 'glance') return this.#look((db) => byIndexes(db, run))
    if (how === 'change') return this.#persist(run)
    if (how === 'take') {
      await this.#endOverdue()
      return this.#transaction(run)
    }
    if (how === 'decide') return this.#decide(run)
    if (how === 'adjust') await this.#endOverdue()
    return this.#change(run)
  }

  /** Runs work that may run twice: the first use of a connection finds out that it died unnoticed. */
  #read<T>(work: (db: Statements, again: boolean) => Promise<T>): Promise<T> {
    return whenReachable(this.#clock, (again) => this.#db.session((db) => work(db, again)), READ_GIVE_UP_MS)
  }

  #transaction<T>(work: (db: Statements) => Promise<T>): Promise<T> {
    return this.#unreadable.mend(() => this.#db.transaction(work))
  }

  #decide<T>(work: (db: Statements) => Promise<T>): Promise<T> {
    const decide = (): Promise<T> =>
      this.#db.transaction(work).catch(async (error: unknown) => {
        if (!(error instanceof OverrideOver)) throw error
        return this.#endOverdue().then(decide)
      })
    return this.#unreadable.mend(decide)
  }

  /** Runs a transaction that may let jobs start. */
  async #change<T>(work: (db: Statements) => Promise<T>): Promise<T> {
    const result = await this.#transaction(work)
    this.#notifier.notify('work')
    return result
  }

  /** The same for one that may run twice. */
  #persist<T>(work: (db: Statements) => Promise<T>): Promise<T> {
    return whenReachable(this.#clock, () => this.#change(work), READ_GIVE_UP_MS)
  }

  /** Runs a report on waits and limits: arrivals join their lanes first, and an override whose time is over ends. */
  async #look<T>(work: (db: Statements) => Promise<T>): Promise<T> {
    await this.#unreadable.mend(() => unlessRefused(this.#db.autocommit(drainArrivals)))
    return this.#unreadable.mend(async () => {
      await unlessRefused(this.#endOverdue())
      return this.#db.session(work)
    })
  }

  #endOverdue(): Promise<void> {
    return this.#db.session((db) => endOverdue(this.#context, db))
  }

  /** Loads the limits and the server's time, and sets the pace of ageing if one is given. */
  async #begin(db: Statements): Promise<void> {
    if (this.#ageingUs !== undefined) await readAsync(setAgeing(accessOf(this.#context, db), this.#ageingUs))
    else await currentLimits(this.#context, db)
    await readClock(this.#context, db)
  }
}

/** A role or a server that only reads is shown what the last claim left. */
async function unlessRefused(work: Promise<void>): Promise<void> {
  await work.catch((error: unknown) => {
    if (!ONLY_READS.has(codeOf(error) ?? '')) throw error
  })
}

/** No right to write; a transaction that only reads. */
const ONLY_READS: ReadonlySet<string> = new Set(['42501', '25006'])

/** Options of a PostgreSQL store. */
export interface PostgresStoreOptions {
  /** `postgres://…`, or a pool of `pg`, which the store's `close` leaves open. */
  readonly connection: string | PgPool
  readonly clock: Clock
  readonly retention: Retention
  /** The schema of the tables; default `sluice`. */
  readonly schema?: string
  /** The most connections of this process, if it creates the pool; default 8. */
  readonly connections?: number
  /** Priorities age by one step per this interval in µs; null: they do not; absent: as stored. */
  readonly ageingUs?: number | null
  /**
   * Whether processes notify each other by NOTIFY; default true. False: timers only, as behind pgBouncer's transaction
   * mode.
   */
  readonly notify?: boolean
}
