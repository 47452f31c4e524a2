import type { Clock } from '../../base/clock.ts'
import { createIds } from '../../base/ids.ts'
import type { PostgresDatabase } from '../../database/postgres.ts'
import type { Statements } from '../../database/statements.ts'
import type { BucketName } from '../../limiter/contract/limiter.ts'
import type { DeclaredQueue, Retention } from '../contract/store.ts'
import { Yields } from '../shared/yields.ts'
import type { Instant } from '../../jobs/series.ts'
import { Timelines } from '../shared/timelines.ts'
import type { ListRead } from './read-set.ts'
import { StoreClock } from './store-clock.ts'

/** The state that the verbs of the PostgreSQL store share. */
export interface Context {
  readonly db: PostgresDatabase
  readonly clock: StoreClock
  readonly retention: Retention
  /** Ids for the jobs that the store itself creates: occurrences of schedules. */
  readonly newId: () => string
  /** The limits at this process's last read; each transaction checks that they are current. */
  limits: Timelines
  readonly queues: QueueNumbers
  /** The last turn that this process assigned. */
  readonly turns: { given: number }
  /** At equal priority, whether a queue's unlimited lane is next; by queue. */
  readonly unlimitedNext: Map<string, boolean>
  /** The stripe behind the one that this process claimed last, by queue. */
  readonly nextStripe: Map<string, number>
  /** The queue limits that this process declared, by queue. */
  readonly declared: Map<string, DeclaredQueue>
  /** Names of schedules in time zones that this process does not know. */
  readonly unreadable: Set<string>
  readonly yields: Yields
  /** Ids of the fleet's buckets, as this process last read them. */
  readonly bucketIds: BucketIds
  /** Since the last claim with a start, no claim had anything to decide: only jobs without limits waited. */
  onlyOpen: boolean
  /** The last claim saw jobs whose tasks it does not list. */
  expectsUnlisted: boolean
  /** The number of lanes that the last claim parked. */
  parked: number
  /** The last claim parked many lanes, and saw jobs whose tasks no worker lists: there may be many more such lanes. */
  unlisted: boolean
  /** How old a decision may be when it is written, after some that were too old, µs; 0: there were none. */
  lateUs: number
  /** How long the last read of a claim took, from its search for due wait lists to its clock, µs. */
  readTookUs: number
  /** The read-ahead of the next claim into wait lists and their lanes: the depth that the last ones needed. */
  readonly readAhead: ReadAhead
}

/** The number of rows that a claim reads first: as many as the last claims needed. */
export interface ReadAhead {
  /** Wait lists of which the last claims needed much, by bucket. */
  readonly lists: Map<number, ListRead>
  /** Waiting jobs of each lane. */
  heads: number
  /** Waiting jobs of each open lane. */
  openHeads: number
  /** Open lanes for each free slot: less than one if a turn is several starts. */
  lanes: number
  /** Further open lanes, where many cannot start anything. */
  extra: number
}

const FIND_BUCKETS = 'SELECT array_to_json(sluice.own_buckets($1::json))::text'
const BUCKETS_REMEMBERED = 10_000

/** The fewest rows that a claim reads. */
export const READ_AHEAD_AT_LEAST = { heads: 2, openHeads: 2, extra: 16 } as const
/** The first claim, and one behind a claim with too few open lanes, reads as many of them as claims ever do. */
export const MOST_LANES = 2

/** Creates the state that the verbs of one store share. */
export function createContext(db: PostgresDatabase, clock: Clock, retention: Retention): Context {
  return {
    db,
    clock: new StoreClock(clock),
    retention,
    newId: createIds(clock),
    limits: new Timelines(-1, new Map()),
    queues: new QueueNumbers(),
    turns: { given: 0 },
    unlimitedNext: new Map(),
    nextStripe: new Map(),
    declared: new Map(),
    unreadable: new Set(),
    yields: new Yields(),
    bucketIds: new BucketIds(),
    onlyOpen: false,
    expectsUnlisted: false,
    parked: 0,
    unlisted: false,
    lateUs: 0,
    readTookUs: 0,
    readAhead: createReadAhead(),
  }
}

/** Creates the read-ahead of a process's first claim. */
export function createReadAhead(): ReadAhead {
  return { ...READ_AHEAD_AT_LEAST, lists: new Map(), lanes: MOST_LANES }
}

/** Numbers for queues within this process: a decision uses numbers, the tables use names. */
export class QueueNumbers {
  readonly #numbers = new Map<string, number>()
  readonly #names: string[] = []
  readonly #recorded = new Set<string>()
  readonly #unrecorded: string[] = []

  /** Notes a queue's name, which is to be recorded unless this process has done so. */
  met(name: string): void {
    if (this.#recorded.has(name)) return
    this.#recorded.add(name)
    this.#unrecorded.push(name)
  }

  /** Returns the queues to record; the caller has to record them. */
  takeUnrecorded(): string[] {
    return [...new Set(this.#unrecorded.splice(0))]
  }

  /** Forgets which queues are recorded. */
  forgetRecords(): void {
    this.#recorded.clear()
  }

  of(name: string): number {
    let number = this.#numbers.get(name)
    if (number === undefined) {
      number = this.#names.push(name)
      this.#numbers.set(name, number)
    }
    return number
  }

  name(number: number): string {
    return this.#names[number - 1] ?? ''
  }
}

/** The ids of the fleet's buckets. The row shows whether one is out of date, or not committed yet. */
export class BucketIds {
  readonly #ids = new Map<string, number>()

  async of(db: Statements, names: readonly BucketName[]): Promise<number[]> {
    if (this.#ids.size + names.length > BUCKETS_REMEMBERED) this.#ids.clear()
    const ids = names.map((name) => this.#ids.get(BucketIds.nameOf(name)))
    const unknown = names.filter((_, i) => ids[i] === undefined)
    if (unknown.length === 0) return ids as number[]
    const rows = await db.script(FIND_BUCKETS, JSON.stringify(unknown.map(({ limit, key }) => [limit, key])))
    const found = JSON.parse((rows as [[[string]]])[0][0][0]) as number[]
    for (const [i, name] of unknown.entries()) this.#ids.set(BucketIds.nameOf(name), found[i] as number)
    return ids.map((id) => id ?? (found.shift() as number))
  }

  forget(): void {
    this.#ids.clear()
  }

  /** The name of a bucket as one text. */
  static nameOf(this: void, { limit, key }: BucketName): string {
    return `${limit}\0${key}`
  }
}

/** Reads the server's clock. */
export async function readClock(context: Context, db: Statements): Promise<Instant> {
  const [nowUs, wallUs] = (await db.get<[number, number]>('SELECT sluice.now_us(), sluice.wall_us()')) as [
    number,
    number,
  ]
  context.clock.saw(nowUs)
  return { nowUs, wallUs }
}
