import { inTransaction, type Statements } from '../../database/postgres.ts'
import { encodeBucket } from '../../policy/limits/bucket.ts'
import type { Rejected } from '../contract/store.ts'
import { areLimits, restoredLimits } from '../shared/queue-limits.ts'
import type { SetAside } from '../contract/set-aside.ts'
import {
  areUses,
  isBucketState,
  isList,
  isObject,
  isSchedule,
  isSieve,
  spentBucket,
  weightsOf,
} from '../shared/set-aside.ts'
import { type Found, UNREADABLE } from '../shared/unreadable-rows.ts'
import { STATE } from '../shared/state.ts'
import { advance } from './advance.ts'
import { announce } from './cancel.ts'
import { type Context, readClock } from './context.ts'
import { currentLimits } from './limit-timelines.ts'
import { discard } from './reject-late.ts'

type JobRow = [
  seq: number,
  queue: string,
  lane: string,
  uses: string | null,
  fair: string | null,
  weights: string | null,
  state: number,
  plan: string | null,
]

const WAITING = [STATE.scheduled, STATE.available, STATE.retryable, STATE.pending].join()
const LIVE = `${WAITING}, ${STATE.active}`
const AT_ONCE = 5000

/** Puts what cannot be read out of the way of claims: jobs are discarded, buckets have nothing left, and what can be found again is forgotten. */
export async function setAside(context: Context, db: Statements): Promise<Found> {
  const settings = await mendSettings(context, db)
  let mended = await forgetSieves(db)
  mended += await restoreUses(db)
  const arrivals = await forgetArrivals(db)
  const jobs: Pick<Found, 'rejected' | 'flows'>[] = []
  for (let after: number | null = 0; after !== null;) {
    const rows: JobRow[] = await db.all<JobRow>(
      `SELECT seq, queue, lane, uses, fair, weights, state, plan FROM sluice.jobs WHERE state IN (${WAITING}) AND (uses IS NOT NULL OR weights IS NOT NULL OR plan IS NOT NULL) AND seq > $1 ORDER BY seq LIMIT ${AT_ONCE}`,
      after,
    )
    after = rows.length < AT_ONCE ? null : (rows.at(-1)?.[0] ?? null)
    const unreadable = rows.filter(
      ([, , , uses, , weights, , plan]) =>
        (uses !== null && !areUses(uses)) ||
        (weights !== null && weightsOf(weights) === null) ||
        (plan !== null && !isList(plan)),
    )
    if (unreadable.length > 0) jobs.push(await discardAll(context, db, unreadable))
  }
  const buckets = await spendBuckets(context, db)
  return {
    rejected: jobs.flatMap((each) => each.rejected),
    flows: jobs.flatMap((each) => each.flows),
    aside: [...settings, ...arrivals, ...buckets],
    mended,
  }
}

/** What they told of is found again in the jobs themselves, where these can be read. */
async function forgetArrivals(db: Statements): Promise<SetAside[]> {
  const rows = await db.all<[number, string, string]>('SELECT id, queue, uses FROM sluice.arrivals')
  const gone = rows.filter(([, , uses]) => !areUses(uses))
  if (gone.length === 0) return []
  await db.run(
    'DELETE FROM sluice.arrivals WHERE id = ANY ($1::bigint[])',
    gone.map(([id]) => id),
  )
  return [...new Set(gone.map(([, queue]) => queue))].map((name) => ({ kind: 'arrival', name }))
}

/** A job has the buckets of its lane, where there is one. A run whose lane is gone may complete, and goes on no more. */
async function restoreUses(db: Statements): Promise<number> {
  let mended = 0
  for (let after: number | null = 0; after !== null;) {
    const rows: [seq: number, uses: string, state: number][] = await db.all<[number, string, number]>(
      `SELECT seq, uses, state FROM sluice.jobs WHERE state IN (${LIVE}) AND uses IS NOT NULL AND seq > $1 ORDER BY seq LIMIT ${AT_ONCE}`,
      after,
    )
    after = rows.length < AT_ONCE ? null : (rows.at(-1)?.[0] ?? null)
    for (const [seq, uses, state] of rows) {
      if (areUses(uses)) continue
      const found = await db.run(OF_THE_LANE, seq)
      const lost = found === 0 && state === STATE.active
      if (lost) await db.run('UPDATE sluice.jobs SET uses = NULL, cancelling = true WHERE seq = $1', seq)
      mended += lost ? 1 : found
    }
  }
  return mended
}

const OF_THE_LANE = `UPDATE sluice.jobs j SET uses = (SELECT json_agg(json_build_array(b.limit_name, b.key) ORDER BY e.n)::text
    FROM unnest(l.buckets) WITH ORDINALITY e(id, n), sluice.buckets b WHERE b.id = e.id)
  FROM sluice.lanes l WHERE j.seq = $1 AND l.key = j.lane AND cardinality(l.buckets) > 0`

/** What claims read beside jobs and budgets: the limits and bounds of queues, schedules, the pace of ageing. */
async function mendSettings(context: Context, db: Statements): Promise<SetAside[]> {
  const aside: SetAside[] = []
  const queues = await db.all<[string, string | null, number | null, string | null]>(
    'SELECT name, limits, limits_version, bounds FROM sluice.queues WHERE limits IS NOT NULL OR bounds IS NOT NULL',
  )
  for (const [name, limits, version, bounds] of queues) {
    if (limits !== null && !areLimits(limits)) {
      const restored = restoredLimits(context.declared.get(name), version)
      await db.run('UPDATE sluice.queues SET limits = $2 WHERE name = $1 AND limits = $3', name, restored, limits)
      aside.push({ kind: 'queue', name })
    }
    if (bounds !== null && !isObject(bounds)) {
      await db.run('UPDATE sluice.queues SET bounds = NULL WHERE name = $1 AND bounds = $2', name, bounds)
      aside.push({ kind: 'bounds', name })
    }
  }
  const [ageing] = (await db.get<[string]>(`SELECT value FROM sluice.store WHERE name = 'ageing'`)) ?? ['{}']
  if (!isObject(ageing)) {
    await db.run(`DELETE FROM sluice.store WHERE name = 'ageing' AND value = $1`, ageing)
    // Every process reads it again.
    await db.run(`UPDATE sluice.store SET value = (value::bigint + 1)::text WHERE name = 'limits'`)
    aside.push({ kind: 'ageing', name: 'the pace of ageing' })
  }
  const schedules = await db.all<[string, string]>(
    'SELECT name, spec FROM sluice.schedules WHERE next_at IS NOT NULL OR catch_up_to IS NOT NULL',
  )
  for (const [name, spec] of schedules) {
    if (isSchedule(spec)) continue
    await db.run(
      'UPDATE sluice.schedules SET wall = true, next_at = NULL, catch_up_to = NULL WHERE name = $1 AND spec = $2',
      name,
      spec,
    )
    aside.push({ kind: 'schedule', name })
  }
  return aside
}

async function forgetSieves(db: Statements): Promise<number> {
  const rows = await db.all<[number, string]>('SELECT id, sieve FROM sluice.lanes WHERE sieve IS NOT NULL')
  const gone = rows.filter(([, sieve]) => !isSieve(sieve)).map(([id]) => id)
  if (gone.length > 0) await db.run('UPDATE sluice.lanes SET sieve = NULL WHERE id = ANY ($1::bigint[])', gone)
  return gone.length
}

async function discardAll(
  context: Context,
  db: Statements,
  jobs: readonly JobRow[],
): Promise<Pick<Found, 'rejected' | 'flows'>> {
  return inTransaction(db, async () => {
    const instant = await readClock(context, db)
    const rejected: Rejected[] = []
    const inFlows: number[] = []
    for (const [seq, queue, lane, uses, fair, , state] of jobs) {
      await db.run('SELECT 1 FROM sluice.jobs WHERE seq = $1 FOR UPDATE', seq)
      rejected.push(...(await discard(context, db, seq, UNREADABLE, instant, inFlows)))
      if (state === STATE.available && uses !== null && areUses(uses)) await announce(db, [queue, lane, uses, fair])
    }
    const flows = inFlows.length === 0 ? [] : [...(await advance(context, db, inFlows)).values()]
    return { rejected, flows }
  })
}

async function spendBuckets(context: Context, db: Statements): Promise<SetAside[]> {
  const limits = await currentLimits(context, db)
  const { nowUs } = await readClock(context, db)
  const rows = await db.all<[number, string, string, string]>(
    'SELECT id, limit_name, key, state FROM sluice.buckets WHERE state IS NOT NULL',
  )
  const aside: SetAside[] = []
  for (const [id, limit, key, text] of rows) {
    if (isBucketState(text)) continue
    const timeline = limits.timeline(limit)
    const spent = spentBucket(timeline.at(key).policy, nowUs)
    await db.run(
      'UPDATE sluice.buckets SET state = $2, revision = $3 WHERE id = $1 AND state = $4',
      id,
      spent && encodeBucket(spent),
      timeline.revision,
      text,
    )
    aside.push({ kind: 'bucket', name: key === '' ? limit : `${limit} for ${key}`, bucket: { limit, key } })
  }
  return aside
}
