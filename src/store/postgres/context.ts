import type { Clock } from '../../base/clock.ts'
import { createIds } from '../../base/ids.ts'
import type { PostgresDatabase, Statements } from '../../database/postgres.ts'
import type { DeclaredQueue, Retention } from '../contract/store.ts'
import { Yields } from '../shared/yields.ts'
import type { Instant } from '../shared/series.ts'
import { Timelines } from '../shared/timelines.ts'
import { StoreClock } from './store-clock.ts'

/** What every verb of the PostgreSQL store works with. */
export interface Context {
  readonly db: PostgresDatabase
  readonly clock: StoreClock
  readonly retention: Retention
  /** Ids for the jobs that the store itself makes: occurrences of schedules. */
  readonly newId: () => string
  /** The limits as this process last read them; each transaction asks whether they still hold. */
  limits: Timelines
  readonly queues: QueueNumbers
  /** The last turn that was given by this process. */
  readonly turns: { given: number }
  /** At equal priority, whether a queue's open line is next; by queue. */
  readonly unlimitedNext: Map<string, boolean>
  /** What this process has said of the limits of its queues, by queue. */
  readonly declared: Map<string, DeclaredQueue>
  /** Names of schedules in time zones that this process does not know. */
  readonly unreadable: Set<string>
  readonly yields: Yields
  /** The last claim that started something found nothing to decide, nor did any since: only jobs without limits waited. */
  onlyOpen: boolean
  /** The last claim has met jobs whose tasks it does not list. */
  expectsUnlisted: boolean
  /** The last claim has parked so many lanes. */
  parked: number
  /** It has parked many, and met jobs whose tasks no worker lists: there may be many more such lanes. */
  unlisted: boolean
  /** How far into wait lists, and into their lanes, the next claim reads: as far as the last ones needed. */
  readonly readAhead: { line: number; heads: number }
}

/** The fewest lanes of a wait list that a claim reads, and the fewest waiting jobs of each. */
export const READ_AHEAD_AT_LEAST: { readonly line: number; readonly heads: number } = { line: 4, heads: 2 }

/** What the verbs of one store share. */
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
    declared: new Map(),
    unreadable: new Set(),
    yields: new Yields(),
    onlyOpen: false,
    expectsUnlisted: false,
    parked: 0,
    unlisted: false,
    readAhead: { ...READ_AHEAD_AT_LEAST },
  }
}

/** Numbers for queues within this process: a decision goes by numbers, the tables by names. */
export class QueueNumbers {
  readonly #numbers = new Map<string, number>()
  readonly #names: string[] = []
  readonly #recorded = new Set<string>()
  readonly #unrecorded: string[] = []

  /** A queue has been named: it is to be put on record, if this process has not done so. */
  met(name: string): void {
    if (this.#recorded.has(name)) return
    this.#recorded.add(name)
    this.#unrecorded.push(name)
  }

  /** Queues to be put on record; whoever takes them does it. */
  takeUnrecorded(): string[] {
    return [...new Set(this.#unrecorded.splice(0))]
  }

  /** Nothing may be on record any more. */
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

/** Reads the server's clock. */
export async function readClock(context: Context, db: Statements): Promise<Instant> {
  const [nowUs, wallUs] = (await db.get<[number, number]>('SELECT sluice.now_us(), sluice.wall_us()')) as [
    number,
    number,
  ]
  context.clock.saw(nowUs)
  return { nowUs, wallUs }
}
