import type { Statements } from '../../database/postgres.ts'
import { type OverdueRuns, TIMEOUT_GRACE_US } from '../contract/remote-jobs.ts'
import { details } from './job-details.ts'
import { STATE } from '../shared/state.ts'

/** Runs whose attempt's time is over, and when the next run or lease ends. */
export async function overdueRuns(db: Statements, limit: number): Promise<OverdueRuns> {
  const [ids, ends, lease] = (await db.get<[string | null, number | null, number | null]>(
    `SELECT (SELECT json_agg(id ORDER BY ends)::text FROM (
       SELECT id, ends FROM sluice.jobs WHERE state = ${STATE.active} AND ends IS NOT NULL AND ends <= sluice.now_us() - ${TIMEOUT_GRACE_US} ORDER BY ends LIMIT $1) o),
     (SELECT ends FROM sluice.jobs WHERE state = ${STATE.active} AND ends IS NOT NULL ORDER BY ends LIMIT 1),
     (SELECT due FROM sluice.jobs WHERE state = ${STATE.active} AND due IS NOT NULL ORDER BY due LIMIT 1)`,
    limit,
  )) as [string | null, number | null, number | null]
  const nextUs = Math.min((ends ?? Infinity) + TIMEOUT_GRACE_US, lease ?? Infinity)
  const runs = ids === null ? [] : await details(db, JSON.parse(ids) as string[])
  return { runs: runs.filter((run) => run !== null), nextUs: nextUs === Infinity ? null : nextUs }
}
