import { inTransaction, type Statements } from '../../database/postgres.ts'
import type { OverrideRequest } from '../contract/overrides.ts'
import type { Timelines } from '../shared/timelines.ts'
import { requested, superfluous } from '../shared/overrides.ts'
import { loadBuckets, saveBucket } from './buckets.ts'
import { changeLimit } from './change-limit.ts'
import { type Context, readClock } from './context.ts'
import { currentLimits, LimitChanges } from './limit-timelines.ts'

/** Writes the ends of overrides that are over, if there are any. */
export async function endIfOverdue(context: Context, db: Statements): Promise<void> {
  const limits = await currentLimits(context, db)
  if (limits.nextEndUs <= (await readClock(context, db)).nowUs) await endOverdue(context, db)
}

/**
 * Writes the ends of all overrides and pauses that are over, each at its own instant, and re-times their wait lists.
 */
export async function endOverdue(context: Context, db: Statements): Promise<void> {
  await inTransaction(db, async () => void (await writeEnds(context, db)))
}

/** Begins, replaces or ends an override or a pause; false: there was none to end. */
export async function override(context: Context, db: Statements, request: OverrideRequest): Promise<boolean> {
  const { limit, key } = request
  const { changes, nowUs } = await writeEnds(context, db)
  const event = requested(changes.limits.timeline(limit), request, nowUs)
  if (event) await changeLimit(db, changes, limit, key, nowUs, () => changes.override(limit, event))
  return event !== null
}

/** Begins a change of limits by writing the ends that are over. */
export async function writeEnds(
  context: Context,
  db: Statements,
): Promise<{ readonly changes: LimitChanges; readonly nowUs: number }> {
  const changes = await LimitChanges.begin(context, db)
  const { nowUs } = await readClock(context, db)
  if (changes.limits.nextEndUs > nowUs) return { changes, nowUs }
  for (const name of changes.limits.names())
    for (const end of changes.limits.timeline(name).overdue(nowUs))
      await changeLimit(db, changes, name, end.key, nowUs, () => changes.override(name, end))
  return { changes, nowUs }
}

/** Forgets the oldest ended changes, once no bucket needs them; returns the number of rows deleted. */
export async function pruneOverrides(context: Context, db: Statements, limit: number): Promise<number> {
  const long = (limits: Timelines): string[] =>
    limits.names().filter((name) => superfluous(limits.timeline(name), limit))
  if (long(context.limits).length === 0) return 0
  const { changes } = await writeEnds(context, db)
  const instant = await readClock(context, db)
  let gone = 0
  for (const name of long(changes.limits)) {
    const old = superfluous(changes.limits.timeline(name), limit)
    if (!old) continue
    const behind = await loadBuckets(
      db,
      changes.limits,
      instant,
      `b.limit_name = $1 AND b.revision < $2 AND b.state IS NOT NULL ORDER BY b.id LIMIT $3 FOR UPDATE`,
      name,
      old.untilRevision,
      limit,
    )
    for (const bucket of behind) await saveBucket(db, changes.limits, bucket, instant.nowUs)
    if (behind.length >= limit) continue
    gone += await changes.forget(name, old.revisions)
  }
  return gone
}
