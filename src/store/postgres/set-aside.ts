import type { Statements } from '../../database/statements.ts'
import { inTransaction } from '../../database/postgres-transaction.ts'
import type { Rejected } from '../contract/store.ts'
import type { SetAside } from '../contract/set-aside.ts'
import { forgetScanCursors, mendSettings, spendBuckets } from '../shared/mend.ts'
import { readAsync } from '../shared/reading.ts'
import { areUses, isList, weightsOf } from '../shared/set-aside.ts'
import { type Found, UNREADABLE } from '../shared/unreadable-rows.ts'
import { column, columns, type RowOf } from '../shared/columns.ts'
import { STATE } from '../shared/state.ts'
import { advance } from './advance.ts'
import { announce } from './announce.ts'
import { type Context, readClock } from './context.ts'
import { discard } from './reject-late.ts'
import { accessOf } from './shared-sql.ts'

const JOB = columns({
  seq: column<number>(),
  uses: column<string | null>(),
  weights: column<string | null>(),
  state: column<number>(),
  plan: column<string | null>(),
})
type Job = RowOf<typeof JOB>

const WAITING = [STATE.scheduled, STATE.available, STATE.retryable, STATE.pending].join()
const LIVE = `${WAITING}, ${STATE.active}`
const AT_ONCE = 5000

/**
 * Sets unreadable rows aside, so that claims continue. Jobs are discarded, buckets have nothing left, and derived data
 * is deleted.
 */
export async function setAside(context: Context, db: Statements): Promise<Found> {
  const access = accessOf(context, db)
  const settings = await readAsync(mendSettings(access))
  let mended = await readAsync(forgetScanCursors(access))
  mended += await restoreUses(db)
  const arrivals = await forgetArrivals(db)
  const jobs: Pick<Found, 'rejected' | 'flows'>[] = []
  for (let after: number | null = 0; after !== null;) {
    const rows: Job[] = (
      await db.all(
        `SELECT ${JOB.list} FROM sluice.jobs WHERE state IN (${WAITING}) AND (uses IS NOT NULL OR weights IS NOT NULL OR plan IS NOT NULL)
         AND seq > $1 ORDER BY seq LIMIT ${AT_ONCE}`,
        after,
      )
    ).map(JOB.read)
    after = rows.length < AT_ONCE ? null : (rows.at(-1)?.seq ?? null)
    const unreadable = rows.filter(
      ({ uses, weights, plan }) =>
        (uses !== null && !areUses(uses)) ||
        (weights !== null && weightsOf(weights) === null) ||
        (plan !== null && !isList(plan)),
    )
    if (unreadable.length > 0) jobs.push(await discardAll(context, db, unreadable))
  }
  const buckets = await readAsync(spendBuckets(access))
  return {
    rejected: jobs.flatMap((each) => each.rejected),
    flows: jobs.flatMap((each) => each.flows),
    aside: [...settings, ...arrivals, ...buckets],
    mended,
  }
}

/** Deletes unreadable arrivals. Their content is restored from the jobs, if these are readable. */
async function forgetArrivals(db: Statements): Promise<SetAside[]> {
  const rows = await db.all<[number, string, string]>('SELECT id, queue, uses FROM sluice.arrivals')
  const gone = rows.filter((row) => !areUses(row[2]))
  if (gone.length === 0) return []
  await db.run(
    'DELETE FROM sluice.arrivals WHERE id = ANY ($1::bigint[])',
    gone.map(([id]) => id),
  )
  return [...new Set(gone.map(([, queue]) => queue))].map((name) => ({ kind: 'arrival', name }))
}

/**
 * Gives a job the buckets of its lane, if that exists. A run whose lane is gone may complete, but does not run again.
 */
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

async function discardAll(
  context: Context,
  db: Statements,
  jobs: readonly Job[],
): Promise<Pick<Found, 'rejected' | 'flows'>> {
  return inTransaction(db, async () => {
    const instant = await readClock(context, db)
    const rejected: Rejected[] = []
    const inFlows: number[] = []
    for (const { seq, uses, state } of jobs) {
      await db.run('SELECT 1 FROM sluice.jobs WHERE seq = $1 FOR UPDATE', seq)
      rejected.push(...(await discard(context, db, [[seq, UNREADABLE]], instant, inFlows)))
      if (state === STATE.available && uses !== null && areUses(uses)) await announce(db, [seq])
    }
    const flows = inFlows.length === 0 ? [] : [...(await advance(context, db, inFlows)).values()]
    return { rejected, flows }
  })
}
