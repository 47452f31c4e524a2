/** Sets aside unreadable queues, schedules, lanes and buckets, in rows that both stores have. */
import { encodeBucket } from '../../policy/limits/bucket-codec.ts'
import type { SetAside } from '../contract/set-aside.ts'
import { areLimits, restoredLimits } from './queue-limits.ts'
import { ask, type Reading } from './reading.ts'
import { isBucketState, isObject, isSchedule, isSieve, spentBucket } from './set-aside.ts'
import { type Access, all, get, now, run } from './sql.ts'

type QueueRow = [name: string, limits: string | null, version: number | null, bounds: string | null]

/**
 * Mends the rows that claims read beside jobs and budgets: the limits and bounds of queues, the pace of ageing,
 * schedules.
 */
export function* mendSettings(access: Access): Reading<SetAside[]> {
  return [...(yield* mendQueues(access)), ...(yield* mendAgeing(access)), ...(yield* stopSchedules(access))]
}

function* mendQueues({ db, declared }: Access): Reading<SetAside[]> {
  const aside: SetAside[] = []
  const known = 'SELECT name, limits, limits_version, bounds FROM sluice.queues'
  for (const [name, limits, version, bounds] of yield* all<QueueRow>(
    db,
    `${known} WHERE limits IS NOT NULL OR bounds IS NOT NULL`,
  )) {
    if (limits !== null && !areLimits(limits)) {
      const restored = restoredLimits(declared.get(name), version)
      yield* run(db, 'UPDATE sluice.queues SET limits = $2 WHERE name = $1 AND limits = $3', name, restored, limits)
      aside.push({ kind: 'queue', name })
    }
    if (bounds !== null && !isObject(bounds)) {
      yield* run(db, 'UPDATE sluice.queues SET bounds = NULL WHERE name = $1 AND bounds = $2', name, bounds)
      aside.push({ kind: 'bounds', name })
    }
  }
  return aside
}

function* mendAgeing({ db }: Access): Reading<SetAside[]> {
  const [text] = (yield* get<[string]>(db, `SELECT value FROM sluice.store WHERE name = 'ageing'`)) ?? ['{}']
  if (isObject(text)) return []
  yield* run(db, `DELETE FROM sluice.store WHERE name = 'ageing' AND value = $1`, text)
  // A new number makes every process read the limits again.
  yield* run(db, `UPDATE sluice.store SET value = (value::bigint + 1)::text WHERE name = 'limits'`)
  return [{ kind: 'ageing', name: 'the pace of ageing' }]
}

function* stopSchedules({ db }: Access): Reading<SetAside[]> {
  const going = 'SELECT name, spec FROM sluice.schedules WHERE next_at IS NOT NULL OR catch_up_to IS NOT NULL'
  const stop =
    'UPDATE sluice.schedules SET wall = true, next_at = NULL, catch_up_to = NULL WHERE name = $1 AND spec = $2'
  const rows = (yield* all<[string, string]>(db, going)).filter(([, spec]) => !isSchedule(spec))
  for (const [name, spec] of rows) yield* run(db, stop, name, spec)
  return rows.map(([name]) => ({ kind: 'schedule', name }))
}

/** Deletes the unreadable scan cursors of lanes. Returns the number of these lanes. */
export function* forgetScanCursors({ db }: Access): Reading<number> {
  const rows = yield* all<[number, string]>(db, 'SELECT id, sieve FROM sluice.lanes WHERE sieve IS NOT NULL')
  const gone = rows.filter(([, cursor]) => !isSieve(cursor)).map(([id]) => id)
  if (gone.length > 0) yield* run(db, 'UPDATE sluice.lanes SET sieve = NULL WHERE id = ANY ($1::bigint[])', gone)
  return gone.length
}

/** Empties the buckets whose state was lost. */
export function* spendBuckets(access: Access): Reading<SetAside[]> {
  const { db } = access
  const limits = yield* ask(() => access.limits())
  const { nowUs } = yield* now(access)
  const rows = yield* all<[number, string, string, string]>(
    db,
    'SELECT id, limit_name, key, state FROM sluice.buckets WHERE state IS NOT NULL',
  )
  const aside: SetAside[] = []
  for (const [id, stored, key, text] of rows) {
    if (isBucketState(text)) continue
    const limit = access.limitName(stored)
    const timeline = limits.timeline(limit)
    const spent = spentBucket(timeline.at(key).policy, nowUs)
    const write = 'UPDATE sluice.buckets SET state = $2, revision = $3 WHERE id = $1 AND state = $4'
    yield* run(db, write, id, spent && encodeBucket(spent), timeline.revision, text)
    aside.push({ kind: 'bucket', name: key === '' ? limit : `${limit} for ${key}`, bucket: { limit, key } })
  }
  return aside
}
