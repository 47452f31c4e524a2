import type { BucketName, HeldPermit } from '../../../limiter/contract/limiter.ts'
import { ask, type Reading } from '../reading.ts'
import { type Access, all, get, now, run } from '../sql.ts'

const OVER = 'SELECT id, buckets FROM sluice.permits WHERE until <= $1 ORDER BY id LIMIT 1000 FOR UPDATE SKIP LOCKED'
const DELETE = 'DELETE FROM sluice.permits WHERE id = ANY ($1::text[])'
const RETURNED = `DELETE FROM sluice.permits WHERE id = ANY ($1::text[]) AND reservation IS NULL RETURNING buckets`
const EXTEND = `UPDATE sluice.permits SET until = $2 WHERE id = ANY ($1::text[]) AND until > $3 AND reservation IS NULL
  RETURNING id`
const NEXT = 'SELECT min(until) FROM sluice.permits'
const WAITED = 'SELECT 1 FROM sluice.buckets WHERE id = ANY ($1::bigint[]) AND wake_at IS NOT NULL LIMIT 1'

/** Returns permits. Answers whether a lane may start with one of them. */
export function* releasePermits(access: Access, permits: readonly HeldPermit[]): Reading<boolean> {
  const ids = [...new Set(permits.map(({ id }) => id))].sort()
  return yield* giveBack(access, yield* all<[string]>(access.db, RETURNED, ids))
}

/** Extends leases; returns the permits whose lease had ended. */
export function* extendPermits(
  access: Access,
  permits: readonly HeldPermit[],
  leaseUs: number,
): Reading<readonly HeldPermit[]> {
  const { nowUs } = yield* now(access)
  const ids = permits.map(({ id }) => id).sort()
  const held = new Set((yield* all<[string]>(access.db, EXTEND, ids, nowUs + leaseUs, nowUs)).map(([id]) => id))
  return permits.filter(({ id }) => !held.has(id))
}

/** Returns the permits whose lease is over, if a limit of these counts permits. Answers whether a lane may start. */
export function* endLeases(access: Access, uses: readonly BucketName[] | null): Reading<boolean> {
  const limits = access.knownLimits()
  if (uses && !uses.some(({ limit, key }) => typeof limits.policy(limit, key)?.concurrency === 'number')) return false
  const { nowUs } = yield* now(access)
  const over = yield* all<[string, string]>(access.db, OVER, nowUs)
  if (over.length === 0) return false
  const ids = over.map(([id]) => id)
  yield* run(access.db, DELETE, ids)
  return yield* giveBack(
    access,
    over.map(([, buckets]) => [buckets]),
  )
}

/** When the next lease ends; null: there is none. */
export function* nextLeaseEndUs({ db }: Access): Reading<number | null> {
  return (yield* get<[number | null]>(db, NEXT))?.[0] ?? null
}

function* giveBack(access: Access, rows: readonly (readonly [buckets: string])[]): Reading<boolean> {
  const ids = rows.flatMap(([buckets]) => JSON.parse(buckets) as number[])
  if (ids.length === 0) return false
  yield* ask(() => access.returnPermits(ids))
  return (yield* get(access.db, WAITED, ids)) !== undefined
}
