/** Changes of limits as both stores write them: each is one row, and one counter numbers all of them. */
import { type Ageing, changePace, NO_AGEING } from '../../policy/admission/ageing.ts'
import type { LimitDefinition, LimitPolicy } from '../../policy/limits/limit.ts'
import type { OverrideEvent } from '../../policy/limits/override.ts'
import type { Timeline } from '../../policy/limits/timeline.ts'
import type { BucketUse } from '../contract/store.ts'
import type { Reading } from './reading.ts'
import { isObject } from './set-aside.ts'
import { all, get, run, type Sql } from './sql.ts'
import { DEFINITION_COLUMNS, OVERRIDE_COLUMNS, Timelines, timelinesOf } from './timelines.ts'

const DEFINE = `INSERT INTO sluice.limits (${DEFINITION_COLUMNS}) VALUES ($1, $2, $3, $4, $5)`
const ADD = `INSERT INTO sluice.overrides (${OVERRIDE_COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`
const FORGET = 'DELETE FROM sluice.overrides WHERE name = $1 AND revision = ANY ($2::int[])'
const BUMP = `INSERT INTO sluice.store (name, value) VALUES ('limits', 1)
  ON CONFLICT (name) DO UPDATE SET value = (sluice.store.value::bigint + 1)::text RETURNING value::bigint`
const AGE = `INSERT INTO sluice.store (name, value) VALUES ('ageing', $1) ON CONFLICT (name) DO UPDATE SET value = excluded.value`

/** Selects the number of limit changes so far; no row: there were none. */
export const GENERATION = `SELECT value::bigint FROM sluice.store WHERE name = 'limits'`

/** The number of limit changes so far. */
export function* generationOf(db: Sql): Reading<number> {
  const row = yield* get<[number]>(db, GENERATION)
  return row?.[0] ?? 0
}

/** Reads all limits. @param queues the limits that code gave to queues as a whole */
export function* readLimits(
  db: Sql,
  generation: number,
  queues?: ReadonlyMap<string, readonly BucketUse[]>,
): Reading<Timelines> {
  const definitions = yield* all(db, `SELECT ${DEFINITION_COLUMNS} FROM sluice.limits`)
  const overrides = yield* all(db, `SELECT ${OVERRIDE_COLUMNS} FROM sluice.overrides`)
  const { timelines, aside } = timelinesOf(definitions, overrides)
  const [text] = (yield* get<[string]>(db, `SELECT value FROM sluice.store WHERE name = 'ageing'`)) ?? []
  const ageing = text !== undefined && isObject(text) ? (JSON.parse(text) as Ageing) : NO_AGEING
  return new Timelines(generation, timelines, ageing, queues, aside)
}

/** Numbers one more change. */
export function* bump(db: Sql): Reading<number> {
  return ((yield* get<[number]>(db, BUMP)) as [number])[0]
}

/** Defines a limit, again or for the first time. */
export function* define(
  db: Sql,
  limits: Timelines,
  name: string,
  policy: LimitPolicy,
  version: number,
  sinceUs: number,
): Reading<Timelines> {
  const revision = limits.timeline(name).revision + 1
  yield* run(db, DEFINE, name, revision, JSON.stringify(policy), version, sinceUs)
  return limits.with(yield* bump(db), name, { kind: 'definition', revision, sinceUs, policy, version })
}

/** Adds the beginning or the end of an override or a pause. */
export function* override(
  db: Sql,
  limits: Timelines,
  name: string,
  event: Omit<OverrideEvent, 'revision'>,
): Reading<Timelines> {
  const revision = limits.timeline(name).revision + 1
  const { kind, key, sinceUs, untilUs, by, reason } = event
  const change = event.change && JSON.stringify(event.change)
  yield* run(db, ADD, name, revision, kind, key, change, sinceUs, untilUs, by, reason)
  return limits.with(yield* bump(db), name, { ...event, revision })
}

/** Sets the pace of ageing from now on (null: priorities do not age). False: the pace was the same before. */
export function* age(db: Sql, { ageing }: Timelines, everyUs: number | null, nowUs: number): Reading<boolean> {
  if (ageing.everyUs === everyUs) return false
  yield* run(db, AGE, JSON.stringify(changePace(ageing, everyUs, nowUs)))
  return true
}

/** Forgets changes that no bucket needs any more; returns the number of rows deleted. */
export function forget(db: Sql, name: string, revisions: readonly number[]): Reading<number> {
  return run(db, FORGET, name, revisions)
}

/** Whether a definition changes a limit; false if the stored one has a higher version. */
export function isNews({ definition }: Timeline, { policy, version }: LimitDefinition): boolean {
  return !definition || (definition.version <= version && JSON.stringify(definition.policy) !== JSON.stringify(policy))
}

/** Whether a limit without permits now has some. A pause starts no job, so permits need no count for it. */
export function gainsPermits(before: Timeline, after: Timeline, key: string | null): boolean {
  const was = before.at(key).unpaused
  return was !== null && was.concurrency === null && after.at(key).unpaused?.concurrency !== null
}

/** Whether a limit drops jobs from now on. */
export function comesToDrop(before: Timeline, after: Timeline, key: string | null): boolean {
  return before.at(key).policy?.onLimit !== 'drop' && after.at(key).policy?.onLimit === 'drop'
}
