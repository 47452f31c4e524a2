import type { Statements } from '../../database/postgres.ts'
import type { LimitPolicy, LimitDefinition } from '../../policy/limits/limit.ts'
import type { OverrideEvent } from '../../policy/limits/override.ts'
import type { DeclaredQueue } from '../contract/store.ts'
import { replaces, type StoredDeclaration, textOf, usesIn } from '../shared/queue-limits.ts'
import { age, bump, define, forget, generationOf, override, readLimits } from '../shared/limit-changes.ts'
import { readAsync } from '../shared/reading.ts'
import { definitionsIn, type Timelines } from '../shared/timelines.ts'
import { type Context, readClock } from './context.ts'

/** The current limits, read again if any of them has changed. */
export async function currentLimits(context: Context, db: Statements): Promise<Timelines> {
  return limitsAt(context, db, await readAsync(generationOf(db)))
}

/** The definition of every limit. */
export async function definitions(context: Context, db: Statements): Promise<LimitDefinition[]> {
  return definitionsIn(await currentLimits(context, db))
}

/** The limits with the changes up to a known number. */
export async function limitsAt(context: Context, db: Statements, generation: number): Promise<Timelines> {
  if (context.limits.generation !== generation) context.limits = await readAll(db, generation)
  return context.limits
}

async function readAll(db: Statements, generation: number): Promise<Timelines> {
  const queues = await db.all<[string, string]>(`SELECT name, limits FROM sluice.queues WHERE limits <> '[]'`)
  const own = new Map(queues.map(([queue, limits]) => [queue, usesIn(limits)]))
  return readAsync(readLimits(db, generation, own))
}

/** A transaction that changes limits. Only one runs at a time, and no claim decides meanwhile. */
export class LimitChanges {
  readonly #db: Statements
  /** The limits with the changes so far. */
  limits: Timelines

  private constructor(db: Statements, limits: Timelines) {
    this.#db = db
    this.limits = limits
  }

  static async begin(context: Context, db: Statements): Promise<LimitChanges> {
    await db.run(`SELECT pg_advisory_xact_lock(hashtext('sluice.limits'), 0)`)
    return new LimitChanges(db, await currentLimits(context, db))
  }

  /** Defines a limit, again or for the first time. */
  async define(name: string, policy: LimitPolicy, version: number, nowUs: number): Promise<void> {
    this.limits = await readAsync(define(this.#db, this.limits, name, policy, version, nowUs))
    await this.#setApart(name, policy.scope === 'worker')
    await this.#writeMaxWaits(name)
  }

  /** Adds the beginning or the end of an override or a pause. */
  async override(name: string, event: Omit<OverrideEvent, 'revision'>): Promise<void> {
    this.limits = await readAsync(override(this.#db, this.limits, name, event))
    await this.#writeMaxWaits(name)
  }

  /** Sets the pace of ageing from now on; null: priorities do not age. */
  async age(everyUs: number | null, nowUs: number): Promise<void> {
    if (await readAsync(age(this.#db, this.limits, everyUs, nowUs))) await this.#readAgain()
  }

  /**
   * Stores the limits that code gives to a queue. Returns the declaration before; null: it stays. Claims without limits
   * wait too.
   */
  async declare(declared: DeclaredQueue): Promise<StoredDeclaration | null> {
    const { queue, version } = declared
    await this.#db.run(`SELECT pg_advisory_xact_lock(hashtext('sluice.held'), hashtext($1))`, queue)
    await this.#db.run(
      'INSERT INTO sluice.queues (name, created) VALUES ($1, sluice.now_us()) ON CONFLICT DO NOTHING',
      queue,
    )
    const [limits, known] = (await this.#db.get<[...StoredDeclaration]>(
      'SELECT limits, limits_version FROM sluice.queues WHERE name = $1',
      queue,
    )) ?? [null, null]
    if (!replaces(declared, [limits, known])) return null
    const text = textOf(declared)
    await this.#db.run(
      'UPDATE sluice.queues SET limits = $2, limits_version = $3 WHERE name = $1',
      queue,
      text,
      version,
    )
    await this.#readAgain()
    return [limits, known]
  }

  /** Forgets changes that no bucket needs any more; returns the number of rows deleted. */
  async forget(name: string, revisions: readonly number[]): Promise<number> {
    const gone = await readAsync(forget(this.#db, name, revisions))
    await this.#readAgain()
    return gone
  }

  async #readAgain(): Promise<void> {
    this.limits = await readAll(this.#db, await readAsync(bump(this.#db)))
  }

  async #writeMaxWaits(name: string): Promise<void> {
    const timeline = this.limits.timeline(name)
    const waits = timeline.keys().map((key) => [key, timeline.at(key).policy?.maxWaitUs ?? null] as const)
    await this.#db.run('DELETE FROM sluice.max_waits WHERE limit_name = $1', name)
    if (waits.every(([, maxWaitUs]) => maxWaitUs === null)) return
    await this.#db.run(
      'INSERT INTO sluice.max_waits (limit_name, key, max_wait) SELECT $1, k, w FROM unnest($2::text[], $3::bigint[]) u(k, w)',
      name,
      waits.map(([key]) => key),
      waits.map(([, maxWaitUs]) => maxWaitUs),
    )
  }

  /**
   * Records which limits have a bucket for each worker, since SQL statements need that too. The next claims recreate
   * lanes made without it.
   */
  async #setApart(name: string, apart: boolean): Promise<void> {
    const changed = await this.#db.run(
      `INSERT INTO sluice.apart AS a (limit_name, apart) SELECT $1, $2 WHERE $2 OR EXISTS (SELECT 1 FROM sluice.apart WHERE limit_name = $1)
       ON CONFLICT (limit_name) DO UPDATE SET apart = excluded.apart WHERE a.apart <> excluded.apart`,
      name,
      apart,
    )
    if (changed > 0)
      await this.#db.run(
        `SELECT sluice.announce_lanes(ARRAY(SELECT l.id FROM sluice.lanes l WHERE l.base IS NULL AND l.buckets && ARRAY(SELECT id FROM sluice.buckets WHERE limit_name = $1)))`,
        name,
      )
  }
}

/**
 * Loads the initial state of an opened store: the limits, the server's time, and the pace of ageing if one is given.
 */
export async function begin(context: Context, db: Statements, ageingUs: number | null | undefined): Promise<void> {
  const { nowUs } = await readClock(context, db)
  if (ageingUs === undefined) return void (await currentLimits(context, db))
  const changes = await LimitChanges.begin(context, db)
  await changes.age(ageingUs, nowUs)
  context.limits = changes.limits
}
