import type { Statements } from '../../database/postgres.ts'
import { type Ageing, changePace, NO_AGEING } from '../../policy/admission/ageing.ts'
import type { LimitPolicy, LimitDefinition } from '../../policy/limits/limit.ts'
import type { OverrideEvent } from '../../policy/limits/override.ts'
import type { DefinitionEvent } from '../../policy/limits/timeline.ts'
import type { DeclaredQueue } from '../contract/store.ts'
import { replaces, type StoredDeclaration, textOf, usesIn } from '../shared/queue-limits.ts'
import { isObject } from '../shared/set-aside.ts'
import { type DefinitionRow, type OverrideRow, Timelines, timelinesOf } from '../shared/timelines.ts'
import { type Context, readClock } from './context.ts'

/** The limits as they are now: read anew if somebody has changed one. */
export async function currentLimits(context: Context, db: Statements): Promise<Timelines> {
  const [generation] = (await db.get<[number]>(
    `SELECT coalesce((SELECT value::bigint FROM sluice.store WHERE name = 'limits'), 0)`,
  )) as [number]
  return limitsAt(context, db, generation)
}

/** Every limit as it is defined. */
export async function definitions(context: Context, db: Statements): Promise<LimitDefinition[]> {
  const limits = await currentLimits(context, db)
  return limits.names().flatMap((name) => {
    const { definition } = limits.timeline(name)
    return definition ? [{ name, policy: definition.policy, version: definition.version }] : []
  })
}

/** The limits, if their changes are known to be numbered so far. */
export async function limitsAt(context: Context, db: Statements, generation: number): Promise<Timelines> {
  if (context.limits.generation !== generation) context.limits = await readLimits(db, generation)
  return context.limits
}

async function readLimits(db: Statements, generation: number): Promise<Timelines> {
  const definitions = await db.all<DefinitionRow>('SELECT name, revision, policy, version, since FROM sluice.limits')
  const overrides = await db.all<OverrideRow>(
    'SELECT name, revision, kind, key, change, since, until, author, reason FROM sluice.overrides',
  )
  const { timelines, aside } = timelinesOf(definitions, overrides)
  const ageing = await db.get<[string]>(`SELECT value FROM sluice.store WHERE name = 'ageing'`)
  const queues = await db.all<[string, string]>(`SELECT name, limits FROM sluice.queues WHERE limits <> '[]'`)
  const own = new Map(queues.map(([queue, limits]) => [queue, usesIn(limits)]))
  const pace = ageing && isObject(ageing[0]) ? (JSON.parse(ageing[0]) as Ageing) : NO_AGEING
  return new Timelines(generation, timelines, pace, own, aside)
}

/** A transaction that changes limits: one at a time, and no claim decides meanwhile. */
export class LimitChanges {
  readonly #db: Statements
  /** The limits with what was changed so far. */
  limits: Timelines

  private constructor(db: Statements, limits: Timelines) {
    this.#db = db
    this.limits = limits
  }

  static async begin(context: Context, db: Statements): Promise<LimitChanges> {
    await db.run(`SELECT pg_advisory_xact_lock(hashtext('sluice.limits'), 0)`)
    return new LimitChanges(db, await currentLimits(context, db))
  }

  /** Defines a limit, anew or for the first time. */
  async define(name: string, policy: LimitPolicy, version: number, nowUs: number): Promise<void> {
    const revision = this.limits.timeline(name).revision + 1
    await this.#db.run(
      'INSERT INTO sluice.limits (name, revision, policy, version, since) VALUES ($1, $2, $3, $4, $5)',
      name,
      revision,
      JSON.stringify(policy),
      version,
      nowUs,
    )
    await this.#add(name, { kind: 'definition', revision, sinceUs: nowUs, policy, version })
  }

  /** Adds the beginning or the end of an override or a pause. */
  async override(name: string, event: Omit<OverrideEvent, 'revision'>): Promise<void> {
    const revision = this.limits.timeline(name).revision + 1
    await this.#db.run(
      'INSERT INTO sluice.overrides (name, revision, kind, key, change, since, until, author, reason) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)',
      name,
      revision,
      event.kind,
      event.key,
      event.change && JSON.stringify(event.change),
      event.sinceUs,
      event.untilUs,
      event.by,
      event.reason,
    )
    await this.#add(name, { ...event, revision })
  }

  /** Sets the pace at which priorities age from now on; null: they age no more. */
  async age(everyUs: number | null, nowUs: number): Promise<void> {
    if (this.limits.ageing.everyUs === everyUs) return
    await this.#db.run(
      `INSERT INTO sluice.store (name, value) VALUES ('ageing', $1) ON CONFLICT (name) DO UPDATE SET value = excluded.value`,
      JSON.stringify(changePace(this.limits.ageing, everyUs, nowUs)),
    )
    this.limits = await readLimits(this.#db, await this.#bump())
  }

  /** Keeps the limits that code gives to a queue; answers what was kept before, null where that stays. No claim without limits goes on either. */
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
    this.limits = await readLimits(this.#db, await this.#bump())
    return [limits, known]
  }

  /** Forgets changes that no bucket has to be carried through any more; answers how many rows went. */
  async forget(name: string, revisions: readonly number[]): Promise<number> {
    const gone = await this.#db.run(
      'DELETE FROM sluice.overrides WHERE name = $1 AND revision = ANY ($2::int[])',
      name,
      revisions,
    )
    this.limits = await readLimits(this.#db, await this.#bump())
    return gone
  }

  async #add(name: string, event: DefinitionEvent | OverrideEvent): Promise<void> {
    this.limits = this.limits.with(await this.#bump(), name, event)
    const timeline = this.limits.timeline(name)
    if (event.kind === 'definition') await this.#setApart(name, event.policy.scope === 'worker')
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

  /** Statements have to know too of which limits each worker has buckets of its own. Lanes that were made otherwise are made anew by the next claims. */
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

  async #bump(): Promise<number> {
    const [generation] = (await this.#db.get<[number]>(
      `INSERT INTO sluice.store (name, value) VALUES ('limits', '1')
       ON CONFLICT (name) DO UPDATE SET value = (sluice.store.value::bigint + 1)::text RETURNING value::bigint`,
    )) as [number]
    return generation
  }
}

/** What an opened store knows from the start: the limits, the server's time, and the pace at which priorities age, if that is told. */
export async function begin(context: Context, db: Statements, ageingUs: number | null | undefined): Promise<void> {
  const { nowUs } = await readClock(context, db)
  if (ageingUs === undefined) return void (await currentLimits(context, db))
  const changes = await LimitChanges.begin(context, db)
  await changes.age(ageingUs, nowUs)
  context.limits = changes.limits
}
