import { type OverdueRuns, TIMEOUT_GRACE_US } from '../contract/remote-jobs.ts'
import type { Context } from './context.ts'
import { details } from './job-details.ts'
import { readAhead } from './read-ahead.ts'
import { STATE } from '../shared/state.ts'

/** Runs whose attempt's time is over, and when the next run or lease ends. */
export function overdueRuns(context: Context, limit: number): OverdueRuns {
  const { db } = context
  const nowUs = context.clock.nowUs()
  const ids = db.all<[string]>(
    `SELECT id FROM jobs WHERE state = ${STATE.active} AND ends IS NOT NULL AND ends <= ? ORDER BY ends LIMIT ${readAhead(limit)}`,
    nowUs - TIMEOUT_GRACE_US,
  )
  const [ends, lease] = db.get<[number | null, number | null]>(
    `SELECT (SELECT ends FROM jobs WHERE state = ${STATE.active} AND ends IS NOT NULL ORDER BY ends LIMIT 1),
     (SELECT due FROM jobs WHERE state = ${STATE.active} AND due IS NOT NULL ORDER BY due LIMIT 1)`,
  ) as [number | null, number | null]
  const nextUs = Math.min((ends ?? Infinity) + TIMEOUT_GRACE_US, lease ?? Infinity)
  return {
    runs: ids.flatMap(([id]) => details(context, id) ?? []),
    nextUs: nextUs === Infinity ? null : nextUs,
  }
}
