import type { Clock } from '../../base/clock.ts'
import { isFinal, mayPass } from '../../base/errors.ts'
import { createIds } from '../../base/ids.ts'
import { SqliteConnection, type Phase } from '../../database/sqlite.ts'
import type { NewJob } from '../../jobs/job.ts'
import type { SettleResult, Settlement } from '../../jobs/settlement.ts'
import { withoutTickets } from '../contract/budgets.ts'
import type { Change, Claim, ClaimRequest, Durability, Enqueued, Retention, Store } from '../contract/store.ts'
import type { Registration } from '../contract/workers.ts'
import { claim } from './claim.ts'
import type { Context } from './context.ts'
import { checkNotNewer } from './existing.ts'
import { enqueue, transactionRefused } from './enqueue.ts'
import { Policies } from './limit-timelines.ts'
import { clear } from './clear.ts'
import { diagnose } from './diagnose.ts'
import { queueCounts } from './counts.ts'
import { push, RefusedPush } from './push.ts'
import type { Access } from '../shared/sql.ts'
import { STATE } from '../shared/state.ts'
import type { Drive } from '../shared/drive.ts'
import { SharedVerbs } from '../shared/verbs.ts'
import type { LimitDefinition } from '../../policy/limits/limit.ts'
import type { PushAnswer } from '../contract/remote-jobs.ts'
import { promote } from './promote.ts'
import { prune } from './prune.ts'
import { afterReboot, recover } from './recover.ts'
import { release } from './release.ts'
import { MIGRATIONS } from './sql/embedded.ts'
import { settle } from './settle.ts'
import type { SettleRequest } from '../shared/settle-once.ts'
import { startFlow } from './start-flow.ts'
import { startWorkflows } from '../shared/workflows/start.ts'
import { setAside } from './set-aside.ts'
import { UnreadableRows } from '../shared/unreadable-rows.ts'
import { StoreClock } from './store-clock.ts'
import { OtherProcesses } from './watch.ts'
import { Yields } from '../shared/yields.ts'
import { type Reading, readNow } from '../shared/reading.ts'
import { setAgeing } from '../shared/limits.ts'
import { accessOf, endOverdue } from './shared-sql.ts'
import { join, leave, registerWorkers } from '../shared/workers.ts'
import { heartbeat } from './workers.ts'

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
export class SqliteStore extends SharedVerbs implements Store {
  readonly backend = 'sqlite'
  readonly aheadUs = 20_000
  readonly claimsInThread = true
  readonly retention: Retention
  readonly unresolved = null
  readonly #db: SqliteConnection
  readonly #others: OtherProcesses
  readonly #unreadable: UnreadableRows
  readonly #storeClock: StoreClock
  readonly #context: Context
  /** Workers that joined through this store: all other registered ones are company. */
  readonly #workers = new Set<number>()
  readonly #ageingUs: number | null | undefined
  readonly #clock: Clock
  readonly #path: string
  #settling: SettleBatch | null = null

  constructor(options: SqliteStoreOptions) {
    super()
    const { clock, path, durability, retention, busyMs } = options
    this.retention = retention
    this.#ageingUs = options.ageingUs
    this.#clock = clock
    this.#path = path
    this.#db = new SqliteConnection({ path, sync: durability === 'power', ...(busyMs !== undefined && { busyMs }) })
    this.#storeClock = new StoreClock(clock)
    this.#db.define('now_us', () => this.#storeClock.nowUs())
    this.#db.define('wall_us', () => this.#storeClock.read().wallUs)
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
      ends: { plain: false },
      unlimitedNext: new Map(),
      declared: new Map(),
      unreadable: new Set(),
      yields: new Yields(),
      adopted: new Map(),
      tellCancelled: () => this.#others.tellCancelled(),
    }
    this.#others = new OtherProcesses(this.#context, clock, this.#workers)
    this.#unreadable = new UnreadableRows(
      () => clock.now(),
      () => this.#db.write(CHANGES, () => setAside(this.#context)),
      () => policies.current.aside,
    )
    this.#db.onRollback(() => {
      policies.forget()
      for (const map of Object.values(ids)) map.clear()
      this.#context.adopted.clear()
    })
  }

  open(): Promise<void> {
    return this.#db.write(FREES, () => {
      migrate(this.#db, this.#clock)
      if (this.#storeClock.anchor(this.#db)) afterReboot(this.#context)
      const { policies } = this.#context
      policies.refresh()
      if (this.#ageingUs !== undefined) readNow(setAgeing(accessOf(this.#context), this.#ageingUs))
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

  watch(listener: (change: Change, isOwn: boolean) => void): () => void {
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

  prune: Store['prune'] = (limit) => this.#change(() => prune(this.#context, limit))

  startFlow: Store['startFlow'] = (flow) => this.#change(() => startFlow(this.#context, flow))
  startWorkflows: Store['startWorkflows'] = (flows, tx) =>
    tx === undefined
      ? this.drive('once', (access) => startWorkflows(access, flows))
      : Promise.reject(transactionRefused())

  claim(request: () => ClaimRequest): Promise<Claim> {
    return this.#unreadable.around(() => this.#db.write(TAKES, () => claim(this.#context, request())))
  }

  /**
   * One statement of the next commit writes the settlements made during this one; one that it cannot write fails alone.
   */
  settle(worker: number, settlement: Settlement): Promise<SettleResult> {
    const batch = (this.#settling ??= this.#newBatch())
    const request = { worker, settlement }
    const at = batch.requests.push(request) - 1
    return batch.answers.then(
      (answers) => answers[at] as SettleResult,
      async (error: unknown) => {
        if (batch.requests.length === 1 || mayPass(error) || isFinal(error)) throw error
        return (await this.#db.write(FREES, () => settle(this.#context, [request])))[0] as SettleResult
      },
    )
  }

  /** Retries work without the unreadable rows that made it fail. */
  #mend<T>(turn: Phase, work: () => T): Promise<T> {
    return this.#unreadable.mend(() => this.#db.write(turn, work))
  }

  #change<T>(work: () => T): Promise<T> {
    return this.#mend(CHANGES, work)
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

  promote: Store['promote'] = (limit) => this.#change(() => promote(this.#context, this.#storeClock.read(), limit))
  recover: Store['recover'] = () => this.#mend(FREES, () => recover(this.#context))

  async push(jobs: readonly NewJob[], limits: readonly LimitDefinition[]): Promise<PushAnswer> {
    try {
      return await this.#db.write(CHANGES, () => push(this.#context, jobs, limits))
    } catch (error) {
      // Thrown to roll the transaction back; the caller gets it as an answer.
      if (error instanceof RefusedPush) return { kind: 'refused', at: error.at, why: error.why }
      throw error
    }
  }

  diagnose: Store['diagnose'] = () => this.#read(() => diagnose(this.#db, this.#clock, this.#path))
  schema: Store['schema'] = () =>
    this.#read(() => {
      const [stored] = this.#db.get<[number]>('PRAGMA user_version') as [number]
      return { stored, known: MIGRATIONS.length }
    })
  queueCounts: Store['queueCounts'] = (queue) => this.#read(() => withoutTickets(queueCounts(this.#context, queue)))
  clear: Store['clear'] = () => this.#change(() => clear(this.#context))

  registerWorker: Store['registerWorker'] = async (worker) => {
    const { registrations } = await this.#change(() => readNow(registerWorkers(accessOf(this.#context), [worker])))
    return registrations[0] as Registration
  }

  join: Store['join'] = async (...given) => {
    const worker = await this.#db.write(CHANGES, () => readNow(join(accessOf(this.#context), ...given)))
    this.#workers.add(worker)
    return worker
  }

  heartbeat: Store['heartbeat'] = (worker, runs, leaseUs) =>
    this.#db.write(FREES, () => heartbeat(this.#context, worker, runs, leaseUs))

  leave(worker: number): Promise<void> {
    this.#workers.delete(worker)
    return this.#db.write(FREES, () => readNow(leave(accessOf(this.#context), worker)))
  }

  async #read<T>(work: () => T): Promise<T> {
    return work()
  }

  /** Other processes see every commit. */
  protected notify(): void {}

  protected drive<T>(how: Drive, work: (access: Access) => Reading<T>): Promise<T> {
    const run = (): T => readNow(work(accessOf(this.#context)))
    if (how === 'read' || how === 'page') return this.#read(run)
    if (how === 'look' || how === 'glance') return this.#readLimits(run)
    return this.#change(() => {
      if (how === 'adjust' || how === 'take' || how === 'decide') endOverdue(this.#context)
      return run()
    })
  }

  /** Runs a report on limits: it first ends an override whose time is over, if no claim has done so yet. */
  async #readLimits<T>(work: () => T): Promise<T> {
    const { policies } = this.#context
    policies.refresh()
    if (policies.current.nextEndUs <= this.nowUs()) await this.#db.write(CHANGES, () => endOverdue(this.#context))
    return work()
  }
}

interface SettleBatch {
  readonly requests: SettleRequest[]
  readonly answers: Promise<SettleResult[]>
}

/** The tables of a new store, as the first one of this process has them: they take 2 ms, all migrations 17. */
let tables: string | null = null

function migrate(db: SqliteConnection, clock: Clock): void {
  const fromUs = clock.monotonicUs()
  const [version] = db.get<[number]>('PRAGMA user_version') as [number]
  checkNotNewer(version)
  const isNew = version === 0 && db.get('SELECT 1 FROM sqlite_master') === undefined
  if (isNew && tables !== null) db.exec(tables)
  else for (const migration of MIGRATIONS.slice(version)) db.exec(migration)
  db.exec(`PRAGMA user_version = ${MIGRATIONS.length}`)
  if (version > 0 && version < MIGRATIONS.length) extendLeases(db, clock.monotonicUs() - fromUs)
  if (!isNew || tables !== null) return
  const own = `sql IS NOT NULL AND name <> 'sqlite_sequence'`
  const made = db.all<[string]>(`SELECT sql FROM sqlite_master WHERE ${own} ORDER BY rowid`)
  tables = made.map(([sql]) => sql).join(';\n')
}

/** Processes at work could extend no lease during an upgrade: each ends later by as long as that took. */
function extendLeases(db: SqliteConnection, tookUs: number): void {
  db.run(`UPDATE jobs SET due = due + ? WHERE state = ${STATE.active}`, tookUs)
  db.run('UPDATE workers SET alive_until = alive_until + ?', tookUs)
}
