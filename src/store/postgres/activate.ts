import type { Statements } from '../../database/postgres.ts'
import type { JobState } from '../../jobs/job-state.ts'
import { announce, type Place } from './cancel.ts'
import { type Context, readClock } from './context.ts'
import { isUuid } from '../shared/sql.ts'
import { STATE, stateName } from '../shared/state.ts'

/**
 * Moves a pending job to its lane, or schedules it. Returns its state before; null: it does not exist, or waits for
 * others of its flow.
 */
export async function activate(
  context: Context,
  db: Statements,
  id: string,
  runAtMs: number | null,
): Promise<JobState | null> {
  if (!isUuid(id)) return null
  const row = await db.get<[seq: number, state: number, waits: number | null, extra: string | null, ...Place]>(
    'SELECT seq, state, waits, extra, queue, lane, uses, fair FROM sluice.jobs WHERE id = $1::uuid FOR UPDATE',
    id,
  )
  if (!row) return null
  const [seq, state, waits, extra, ...place] = row
  if (state !== STATE.pending) return stateName(state)
  if (waits) return null
  const { nowUs, wallUs } = await readClock(context, db)
  const noted = JSON.stringify({ ...(JSON.parse(extra ?? '{}') as object), activatedUs: nowUs })
  const runAtUs = runAtMs === null ? 0 : Math.round(runAtMs * 1000)
  const [due] = (await db.get<[number | null]>(
    `UPDATE sluice.jobs SET state = $2::int, since = $3, booked = NULL, extra = $4,
     due = CASE WHEN $2::int = ${STATE.scheduled} THEN $5::bigint ELSE sluice.latest_start(uses, expires, $3, $6) END WHERE seq = $1 RETURNING due`,
    seq,
    runAtUs > wallUs ? STATE.scheduled : STATE.available,
    nowUs,
    noted,
    runAtUs,
    wallUs,
  )) as [number | null]
  if (runAtUs <= wallUs) await announce(db, place, due !== null)
  return 'pending'
}
