import type { Statements } from '../../database/postgres.ts'
import type { ClaimedRun } from '../shared/lost.ts'
import type { RemoteClaim, Run } from '../contract/store.ts'
import { STATE } from '../shared/state.ts'

/** Active jobs of a worker that it does not hold: of claims whose answer it never got. */
export async function lostClaims(db: Statements, worker: number, held: readonly Run[]): Promise<Run[]> {
  const rows = await db.all<[seq: number, attempt: number]>(
    `SELECT j.seq, j.attempt FROM sluice.jobs j WHERE j.state = ${STATE.active} AND j.worker = $1
     AND NOT EXISTS (SELECT 1 FROM unnest($2::bigint[], $3::int[]) h(seq, attempt) WHERE h.seq = j.seq AND h.attempt = j.attempt)`,
    worker,
    held.map(({ seq }) => seq),
    held.map(({ attempt }) => attempt),
  )
  return rows.map(([seq, attempt]) => ({ seq, attempt }))
}

/** Jobs that remote claims have started and that still run. */
export async function runsOfClaims(db: Statements, claims: readonly RemoteClaim[]): Promise<ClaimedRun[]> {
  const rows = await db.all<[seq: number, attempt: number, worker: number, claimId: string]>(
    `SELECT j.seq, j.attempt, j.worker, j.claim::text FROM sluice.jobs j
     JOIN unnest($1::bigint[], $2::uuid[]) c(worker, claim) ON j.worker = c.worker AND j.claim = c.claim WHERE j.state = ${STATE.active}`,
    claims.map(({ worker }) => worker),
    claims.map(({ claimId }) => claimId),
  )
  return rows.map(([seq, attempt, worker, claimId]) => ({ seq, attempt, worker, claimId }))
}
