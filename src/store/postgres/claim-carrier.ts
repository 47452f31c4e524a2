import type { Clock } from '../../base/clock.ts'
import { mayPass } from '../../base/errors.ts'
import type { PgValue, Statements } from '../../database/statements.ts'
import { codeOf } from '../../database/postgres-error.ts'
import type { NewJob } from '../../jobs/job.ts'
import { isOfTickets } from '../contract/budgets.ts'
import type { Claim, ClaimRequest } from '../contract/store.ts'
import { Batch } from './batch.ts'
import { mayBegin, mayClaimOpen, openClaim, openTerms, type StartRow, storeAndClaim } from './claim-open.ts'
import type { Context } from './context.ts'
import type { PlaceOf } from './parent-results.ts'
import { recordQueuesOf } from './queues.ts'
import { autocommit, READ_GIVE_UP_MS, whenReachable } from './retry-connection.ts'
import type { Notifier } from './watch.ts'

const UNIQUE_VIOLATION = '23505'

/** A verb that stores items with one job each. */
export interface Carrying<Item, Answer> {
  jobOf(item: Item): NewJob
  /** Whether `insert` can store them together. */
  areInserted(items: readonly Item[]): boolean
  /** Whether its job may also start at once. */
  isPlain(item: Item): boolean
  /**
   * The columns of a SELECT that stores items, the last of them without a name; null there: it stored none.
   *
   * @param terms more arguments: the worker at which the jobs start at once, its lease and the id of its claim
   */
  insert(terms: string): string
  /** The number of its parameters. */
  readonly parameters: number
  valuesOf(items: readonly Item[]): PgValue[]
  /** The answer for an item that was stored. */
  created(item: Item): Answer
  /** Stores other items. @param again an earlier try, whose answer was lost, may have stored them */
  write(db: Statements, items: readonly Item[], again: boolean): Promise<Answer[]>
  /** The place of a stored item's job in its flow; absent: it is read. */
  readonly placeOf?: (item: Item, ...started: Parameters<PlaceOf>) => ReturnType<PlaceOf>
}

/** A claim that waits for the statement that leaves next. */
interface Passenger {
  readonly ask: () => ClaimRequest
  /** Null: nothing was claimed, and the claim is still to be made. */
  resolve(claim: Claim | null): void
  reject(error: unknown): void
}

interface Written<Answer> {
  readonly answers: Answer[]
  readonly claim: Claim | null
  /** Other processes were told behind the commit. */
  readonly told?: boolean
}

/**
 * Writes items that come together in one statement. A claim of this process may join it: then a job can start in the
 * commit that stores it.
 */
export class ClaimCarrier<Item, Answer> {
  readonly #context: Context
  readonly #clock: Clock
  readonly #notifier: Notifier
  readonly #verb: Carrying<Item, Answer>
  readonly #sql: string
  readonly #batch = new Batch<Item, Answer>((items) => this.#send(items))
  /** The statement that leaves next has jobs which a claim may start at once. */
  #mayStart = false
  #passenger: Passenger | null = null
  /** Claims that were written and not answered yet. */
  #answering = 0

  constructor(context: Context, clock: Clock, notifier: Notifier, verb: Carrying<Item, Answer>) {
    this.#context = context
    this.#clock = clock
    this.#notifier = notifier
    this.#verb = verb
    this.#sql = storeAndClaim((terms) => verb.insert(terms), verb.parameters + 1)
  }

  get pending(): boolean {
    return this.#batch.pending || this.#answering > 0
  }

  /** Whether a claim made now could start jobs in the commit that stores them. */
  get takesClaim(): boolean {
    return this.#mayStart && this.#passenger === null && this.#batch.isLeaving
  }

  add(items: readonly Item[]): Promise<Answer[]> {
    const answers = this.#batch.add(items)
    this.#mayStart ||= this.#context.onlyOpen && items.every((item) => this.#verb.isPlain(item))
    return answers
  }

  /** Joins a claim to the statement that leaves next. Null: the claim is still to be made. */
  claim(ask: () => ClaimRequest): Promise<Claim | null> | null {
    if (!this.takesClaim) return null
    return new Promise((resolve, reject) => {
      this.#passenger = { ask, resolve, reject }
    })
  }

  async #send(items: readonly Item[]): Promise<Answer[]> {
    const passenger = this.#passenger
    this.#passenger = null
    this.#mayStart = false
    const write = (again: boolean): Promise<Written<Answer>> =>
      this.#context.db.autocommit(async (db) => {
        const written = again
          ? { answers: await this.#verb.write(db, items, true), claim: null }
          : await this.#write(db, items, passenger)
        await recordQueuesOf(this.#context, db)
        return written
      })
    let tries = 0
    const once = async (again: boolean): Promise<Written<Answer>> => {
      try {
        return await write(again)
      } catch (error) {
        if (passenger && tries++ === 0) this.#answer(() => refuse(passenger, error))
        throw error
      }
    }
    const { answers, claim, told } = await whenReachable(this.#clock, once, READ_GIVE_UP_MS)
    const started = new Set(claim?.jobs.map(({ id }) => id))
    const concernsOthers = ({ id, queue }: NewJob): boolean => !started.has(id) && !isOfTickets(queue)
    if (items.some((item) => concernsOthers(this.#verb.jobOf(item)))) this.#notifier.notify('work', told)
    // The callers come first: a job is reported as stored before its start is.
    if (passenger && tries === 0) this.#answer(() => passenger.resolve(claim))
    return answers
  }

  async #write(db: Statements, items: readonly Item[], passenger: Passenger | null): Promise<Written<Answer>> {
    const { placeOf } = this.#verb
    if (!this.#verb.areInserted(items)) return { answers: await this.#verb.write(db, items, false), claim: null }
    const answers = items.map((item) => this.#verb.created(item))
    for (const item of items) this.#context.queues.met(this.#verb.jobOf(item).queue)
    const request = passenger?.ask()
    if (!request || !this.#mayJoin(request, items)) {
      const told =
        items.some((item) => !isOfTickets(this.#verb.jobOf(item).queue)) && this.#notifier.notifyBehind(db, 'work')
      const isStored = await this.#insert(db, items)
      return isStored
        ? { answers, claim: null, told }
        : { answers: await this.#verb.write(db, items, false), claim: null }
    }
    const jobs = items.map((item) => this.#verb.jobOf(item))
    const terms = [...openTerms(this.#context, request), mayBegin(request, jobs)]
    const rows = await autocommit(this.#context, db, () =>
      db.call<StartRow>(this.#sql, ...this.#verb.valuesOf(items), ...terms),
    )
    const claim = await openClaim(this.#context, db, request, rows, jobs, placeOf && placesOf(items, jobs, placeOf))
    return { answers, claim }
  }

  /** Stores items by themselves. False: another has a key of theirs, and none was stored. */
  async #insert(db: Statements, items: readonly Item[]): Promise<boolean> {
    try {
      const store = (): Promise<unknown[][]> =>
        db.call<unknown[]>(`SELECT ${this.#verb.insert('')}`, ...this.#verb.valuesOf(items))
      const [row] = await autocommit(this.#context, db, store)
      return row?.at(-1) !== null
    } catch (error) {
      if (codeOf(error) !== UNIQUE_VIOLATION) throw error
      return false
    }
  }

  #mayJoin(request: ClaimRequest, items: readonly Item[]): boolean {
    const hasSlot = (item: Item): boolean => {
      const { queue } = this.#verb.jobOf(item)
      return request.queues.some((each) => each.queue === queue && each.slots > 0)
    }
    return (
      items.every((item) => this.#verb.isPlain(item)) && items.some(hasSlot) && mayClaimOpen(this.#context, request)
    )
  }

  #answer(answer: () => void): void {
    this.#answering++
    setImmediate(() => {
      this.#answering--
      answer()
    })
  }
}

/** The places of jobs of items by their ids. */
function placesOf<Item>(
  items: readonly Item[],
  jobs: readonly NewJob[],
  placeOf: NonNullable<Carrying<Item, unknown>['placeOf']>,
): PlaceOf {
  const byId = new Map(jobs.map(({ id }, at) => [id, items[at] as Item]))
  return (job, at) => {
    const item = byId.get(job.id)
    return item && placeOf(item, job, at)
  }
}

/** If the statement failed for certain, the claim is still to be made. Otherwise it may have been written. */
function refuse(passenger: Passenger, error: unknown): void {
  if (mayPass(error)) passenger.reject(error)
  else passenger.resolve(null)
}
