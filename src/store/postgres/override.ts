import { SluiceError } from '../../base/errors.ts'
import { inTransaction, type Statements } from '../../database/postgres.ts'
import { applyOverride, type PolicyChange } from '../../policy/limits/override.ts'
import type { OverrideRequest } from '../contract/overrides.ts'
import type { Timelines } from '../shared/timelines.ts'
import { loadBuckets, saveBucket } from './buckets.ts'
import { changeLimit } from './change-limit.ts'
import { type Context, readClock } from './context.ts'
import { currentLimits, LimitChanges } from './limit-timelines.ts'

const PAUSE: PolicyChange = { concurrency: 0 }
/** So many changes of a limit that are over are kept on record, and at most twice as many. */
const RECORDS_KEPT = 500

/** Writes the ends that are over, if there are such. */
export async function endIfOverdue(context: Context, db: Statements): Promise<void> {
  const limits = await currentLimits(context, db)
  if (limits.nextEndUs <= (await readClock(context, db)).nowUs) await endOverdue(context, db)
}

/** Writes the ends of all overrides and pauses whose time is over, each as of its own moment, and has their lines re-timed. */
export async function endOverdue(context: Context, db: Statements): Promise<void> {
  await inTransaction(db, async () => void (await writeEnds(context, db)))
}

/** Begins, replaces or ends an override or a pause; false: there was none to end. */
export async function override(context: Context, db: Statements, request: OverrideRequest): Promise<boolean> {
  const { limit, key, kind, untilUs, by, reason } = request
  const { changes, nowUs } = await writeEnds(context, db)
  const timeline = changes.limits.timeline(limit)
  if (!timeline.definition) throw new SluiceError('limit.unknown', `No limit ${limit} is defined in this store.`)
  const change = kind === 'pause' && request.change ? PAUSE : request.change
  const stands = timeline.records().some((each) => each.ended === null && each.kind === kind && each.key === key)
  if (change === null && !stands) return false
  if (change !== null && kind === 'override') applyOverride(timeline.definition.policy, change, `limit ${limit}`)
  await changeLimit(db, changes, limit, key, nowUs, () =>
    changes.override(limit, { kind, key, change, sinceUs: nowUs, untilUs, by, reason }),
  )
  return true
}

/** Begins a change of limits: what is over by now has ended. */
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

/** Forgets the oldest of what is over, once no bucket has to be carried through it any more; answers how many rows went. */
export async function pruneOverrides(context: Context, db: Statements, limit: number): Promise<number> {
  const long = (limits: Timelines): string[] =>
    limits.names().filter((name) => limits.timeline(name).over().length > 2 * RECORDS_KEPT)
  if (long(context.limits).length === 0) return 0
  const { changes } = await writeEnds(context, db)
  const instant = await readClock(context, db)
  let gone = 0
  for (const name of long(changes.limits)) {
    const over = changes.limits.timeline(name).over()
    const forgotten = over.slice(0, Math.min(over.length - RECORDS_KEPT, limit))
    const behind = await loadBuckets(
      db,
      changes.limits,
      instant,
      `b.limit_name = $1 AND b.revision < $2 AND b.state IS NOT NULL ORDER BY b.id LIMIT $3 FOR UPDATE`,
      name,
      Math.max(...forgotten.map((each) => each.endRevision)),
      limit,
    )
    for (const bucket of behind) await saveBucket(db, changes.limits, bucket, instant.nowUs)
    if (behind.length >= limit) continue
    gone += await changes.forget(
      name,
      forgotten.flatMap((each) => each.revisions),
    )
  }
  return gone
}
