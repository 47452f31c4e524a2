import { inTransaction, type Statements } from '../../database/postgres.ts'
import { encodeBucket } from '../../policy/bucket.ts'
import type { Rejected } from '../store.ts'
import { areUses, isBucketState, isSieve, type SetAside, spentBucket, weightsOf } from '../set-aside.ts'
import { type Found, UNREADABLE } from '../unreadable-rows.ts'
import { STATE } from '../state.ts'
import { advance } from './advance.ts'
import { announce } from './cancel.ts'
import { type Context, readClock } from './context.ts'
import { currentLimits } from './limits.ts'
import { discard } from './reject-late.ts'

type JobRow = [
  seq: number,
  queue: string,
  lane: string,
  uses: string | null,
  fair: string | null,
  weights: string | null,
  state: number,
]

const WAITING = [STATE.scheduled, STATE.available, STATE.retryable, STATE.pending].join()
const AT_ONCE = 5000

/** Puts what cannot be read out of the way of claims: jobs are discarded, buckets have nothing left, and what can be found again is forgotten. */
export async function setAside(context: Context, db: Statements): Promise<Found> {
  const arrivals = await forgetArrivals(db)
  await forgetSieves(db)
  const jobs: Pick<Found, 'rejected' | 'flows'>[] = []
  for (let after: number | null = 0; after !== null;) {
    const rows: JobRow[] = await db.all<JobRow>(
      `SELECT seq, queue, lane, uses, fair, weights, state FROM sluice.jobs WHERE state IN (${WAITING}) AND (uses IS NOT NULL OR weights IS NOT NULL) AND seq > $1 ORDER BY seq LIMIT ${AT_ONCE}`,
      after,
    )
    after = rows.length < AT_ONCE ? null : (rows.at(-1)?.[0] ?? null)
    const unreadable = rows.filter(
      ([, , , uses, , weights]) =>
        (uses !== null && !areUses(uses)) || (weights !== null && weightsOf(weights) === null),
    )
    if (unreadable.length > 0) jobs.push(await discardAll(context, db, unreadable))
  }
  const buckets = await spendBuckets(context, db)
  return {
    rejected: jobs.flatMap((each) => each.rejected),
    flows: jobs.flatMap((each) => each.flows),
    aside: [...arrivals, ...buckets],
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

async function forgetSieves(db: Statements): Promise<void> {
  const rows = await db.all<[number, string]>('SELECT id, sieve FROM sluice.lanes WHERE sieve IS NOT NULL')
  const gone = rows.filter(([, sieve]) => !isSieve(sieve)).map(([id]) => id)
  if (gone.length > 0) await db.run('UPDATE sluice.lanes SET sieve = NULL WHERE id = ANY ($1::bigint[])', gone)
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
