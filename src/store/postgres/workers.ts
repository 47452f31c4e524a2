import type { Statements } from '../../database/statements.ts'
import type { Beat, Run } from '../contract/store.ts'
import { STATE } from '../shared/state.ts'
import { type Context, readClock } from './context.ts'

/** Extends the leases of a worker's runs. */
export async function heartbeat(
  context: Context,
  db: Statements,
  worker: number,
  runs: readonly Run[],
  leaseUs: number,
): Promise<Beat> {
  await readClock(context, db)
  // By the clock behind the locks: a wait for them must not shorten a lease.
  const [back] = (await db.get<[queues: string | null]>(
    `WITH was AS (SELECT id, queues, alive_until FROM sluice.workers WHERE id = $1 AND name IS NULL FOR UPDATE)
     UPDATE sluice.workers w SET alive_until = sluice.now_us() + $2 FROM was WHERE w.id = was.id
     RETURNING CASE WHEN was.alive_until = 0 THEN to_json(was.queues)::text END`,
    worker,
    leaseUs,
  )) ?? [null]
  if (back) await db.run('SELECT sluice.adopt($1::text[])', JSON.parse(back) as string[])
  if (runs.length === 0) return { cancelled: [], lost: [] }
  const sorted = [...runs].sort((a, b) => a.seq - b.seq)
  const seqs = sorted.map(({ seq }) => seq)
  await db.run('SELECT 1 FROM sluice.jobs WHERE seq = ANY ($1::bigint[]) ORDER BY seq FOR UPDATE', seqs)
  const rows = await db.all<[number, boolean]>(
    `UPDATE sluice.jobs j SET due = sluice.now_us() + $4 FROM unnest($1::bigint[], $2::int[]) g(seq, attempt)
     WHERE j.seq = g.seq AND j.attempt = g.attempt AND j.worker = $3 AND j.state = ${STATE.active} RETURNING j.seq, j.cancelling`,
    seqs,
    sorted.map(({ attempt }) => attempt),
    worker,
    leaseUs,
  )
  const held = new Set(rows.map(([seq]) => seq))
  return {
    cancelled: rows.filter(([, cancelling]) => cancelling).map(([seq]) => seq),
    lost: runs.filter((run) => !held.has(run.seq)).map((run) => run.seq),
  }
}
