import type { Statements } from '../../database/postgres.ts'
import type { KeyCount, KeyQuery, LimitTotals } from '../contract/limit-keys.ts'
import { LANE, STATE } from '../shared/state.ts'

const WAITING = `(SELECT count(*) FROM sluice.lanes l JOIN sluice.jobs j ON j.lane = coalesce(l.base, l.key) AND j.state = ${STATE.available} WHERE l.bucket = b.id AND l.state = ${LANE.waiting})`

/** Keys of a limit with the number of jobs in their lines; counted one by one, so not for a hot path. */
export async function limitKeys(db: Statements, { limit, sort, after, rows }: KeyQuery): Promise<KeyCount[]> {
  const found =
    sort === 'key'
      ? await db.all<[string, number]>(
          `SELECT b.key, ${WAITING} FROM sluice.buckets b WHERE b.limit_name = $1 AND b.worker = 0 AND ($2::text IS NULL OR b.key COLLATE "C" > $2)
           ORDER BY b.key COLLATE "C" LIMIT $3`,
          limit,
          after?.key ?? null,
          rows,
        )
      : await db.all<[string, number]>(
          `SELECT key, waiting FROM (SELECT b.key, ${WAITING} AS waiting FROM sluice.buckets b WHERE b.limit_name = $1 AND b.worker = 0) k
           WHERE $2::bigint IS NULL OR waiting < $2 OR (waiting = $2 AND key COLLATE "C" > $3) ORDER BY waiting DESC, key COLLATE "C" LIMIT $4`,
          limit,
          after?.waiting ?? null,
          after?.key ?? null,
          rows,
        )
  return found.map(([key, waiting]) => ({ key, waiting }))
}

/** All budgets of each of these limits together. */
export async function limitTotals(db: Statements, limits: readonly string[]): Promise<LimitTotals[]> {
  const rows = await db.all<[string, number, number, number]>(
    `SELECT limit_name, count(*), sum(active)::bigint, sum(waiting)::bigint
     FROM (SELECT b.limit_name, b.active, ${WAITING} AS waiting FROM sluice.buckets b WHERE b.limit_name = ANY ($1::text[]) AND b.worker = 0) t
     GROUP BY limit_name`,
    limits,
  )
  return rows.map(([limit, keys, active, waiting]) => ({ limit, keys, active, waiting }))
}
