import type { KeyCount, KeyQuery, LimitTotals } from '../contract/limit-keys.ts'
import { LANE, STATE } from '../shared/state.ts'
import type { Context } from './context.ts'

const WAITING = `(SELECT count(*) FROM lanes l JOIN jobs j ON j.lane = coalesce(l.base, l.id) AND j.state = ${STATE.available} WHERE l.bucket = b.id AND l.state = ${LANE.waiting})`

/** Keys of a limit with the number of jobs in their lines; counted one by one, so not for a hot path. */
export function limitKeys({ db }: Context, { limit, sort, after, rows }: KeyQuery): KeyCount[] {
  const found =
    sort === 'key'
      ? db.all<[string, number]>(
          `SELECT b.key, ${WAITING} FROM buckets b WHERE b.limit_name = ?1 AND (?2 IS NULL OR b.key > ?2) ORDER BY b.key LIMIT ?3`,
          limit,
          after?.key ?? null,
          rows,
        )
      : db.all<[string, number]>(
          `SELECT key, waiting FROM (SELECT b.key, ${WAITING} AS waiting FROM buckets b WHERE b.limit_name = ?1)
           WHERE ?2 IS NULL OR waiting < ?2 OR (waiting = ?2 AND key > ?3) ORDER BY waiting DESC, key LIMIT ?4`,
          limit,
          after?.waiting ?? null,
          after?.key ?? null,
          rows,
        )
  return found.map(([key, waiting]) => ({ key, waiting }))
}

/** All budgets of each of these limits together. */
export function limitTotals({ db }: Context, limits: readonly string[]): LimitTotals[] {
  return db
    .all<[string, number, number, number]>(
      `SELECT b.limit_name, count(*), sum(b.active), sum(${WAITING}) FROM buckets b
       WHERE b.limit_name IN (SELECT value FROM json_each(?)) GROUP BY b.limit_name`,
      JSON.stringify(limits),
    )
    .map(([limit, keys, active, waiting]) => ({ limit, keys, active, waiting }))
}
