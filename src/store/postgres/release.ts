import type { Statements } from '../../database/statements.ts'
import { refund } from '../../policy/limits/bucket.ts'
import type { CancelledRun } from '../contract/recall.ts'
import type { Unstarted } from '../contract/store.ts'
import { advance } from './advance.ts'
import { lockBuckets, saveBucket } from '../shared/buckets.ts'
import { readAsync } from '../shared/reading.ts'
import { accessOf } from './shared-sql.ts'
import { announce } from './announce.ts'
import { type Context, readClock } from './context.ts'
import { currentLimits } from './limit-timelines.ts'
import { ownerFor } from './own.ts'
import { STATE } from '../shared/state.ts'

// The claim of an occurrence removed its expiry, the end of its series, which holds for a first start alone.
const EXPIRES = `CASE WHEN schedule IS NULL OR attempt > 1 OR pushed_back > 0 THEN expires
      ELSE (SELECT round((s.spec::json ->> 'untilMs')::numeric * 1000 - 1)::bigint FROM sluice.schedules s WHERE s.name = schedule) END`
const RELEASE = `UPDATE sluice.jobs SET attempt = attempt - 1, worker = NULL, started = NULL,
    state = CASE WHEN cancelling THEN ${STATE.cancelled} ELSE ${STATE.available} END, since = $4, finished = CASE WHEN cancelling THEN $4::bigint END,
    due = CASE WHEN cancelling THEN $6::bigint ELSE sluice.latest_start(uses, ${EXPIRES}, $4, $5) END, expires = ${EXPIRES}
  WHERE seq = $1 AND attempt = $2 AND worker = $3 AND state = ${STATE.active} RETURNING permits, state, flow`

type Row = [permits: number[] | null, state: number, flow: number | null]

/**
 * Gives back claimed jobs that never started: their units, their permits, their attempt and their place. It locks jobs,
 * then buckets, then flows.
 */
export async function release(
  context: Context,
  db: Statements,
  worker: number,
  runs: readonly Unstarted[],
): Promise<CancelledRun[]> {
  const { nowUs, wallUs } = await readClock(context, db)
  const ended: number[] = []
  const ofFlows: number[] = []
  const released: { readonly run: Unstarted; readonly permits: readonly number[] }[] = []
  for (const run of [...runs].sort((a, b) => a.seq - b.seq)) {
    const cancelledDue = nowUs + context.retention.cancelledUs
    const row = await db.get<Row>(RELEASE, run.seq, run.attempt, worker, nowUs, wallUs, cancelledDue)
    if (!row) continue
    const [permits, state, flow] = row
    released.push({ run, permits: permits ?? [] })
    if (state === STATE.available) await announce(db, [run.seq])
    else ended.push(run.seq)
    if (state !== STATE.available && flow !== null) ofFlows.push(run.seq)
  }
  await refundAll(context, db, worker, released)
  const news = ofFlows.length > 0 ? await advance(context, db, ofFlows) : null
  return ended.map((seq) => {
    const flow = news?.get(seq)
    return { seq, ...(flow && { flow }) }
  })
}

async function refundAll(
  context: Context,
  db: Statements,
  worker: number,
  released: readonly { readonly run: Unstarted; readonly permits: readonly number[] }[],
): Promise<void> {
  const current = await currentLimits(context, db)
  const names = released.flatMap(({ run }) =>
    run.uses.map(({ limit, key }) => [limit, key, ownerFor(current, limit, key, worker)]),
  )
  const rows = await db.all<[number]>(
    'SELECT b.id FROM json_array_elements($1::json) u, sluice.buckets b WHERE b.limit_name = u ->> 0 AND b.key = u ->> 1 AND b.worker = (u ->> 2)::bigint',
    JSON.stringify(names),
  )
  const ids = [...new Set([...rows.map(([id]) => id), ...released.flatMap(({ permits }) => permits)])]
  if (ids.length === 0) return
  const access = accessOf(context, db)
  const { buckets, limits, instant } = await readAsync(lockBuckets(access, ids))
  // The last first: so each returns all of its units.
  const lastFirst = released.toSorted((a, b) => b.run.startedUs - a.run.startedUs)
  for (const bucket of buckets) {
    const { policy, state } = bucket
    for (const { run, permits } of lastFirst) {
      const use = run.uses.find(({ limit, key }) => limit === bucket.limit && key === bucket.key)
      if (use && policy && use.weight > 0) refund(policy, state, instant.nowUs, use.weight, run.startedUs)
      if (permits.includes(bucket.id)) bucket.active = Math.max(0, bucket.active - 1)
    }
    bucket.wakeAtUs = bucket.wakeAtUs === null ? null : Math.min(bucket.wakeAtUs, instant.nowUs)
    await readAsync(saveBucket(access, limits, bucket, instant.nowUs))
  }
}
