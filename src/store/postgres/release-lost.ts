import type { Statements } from '../../database/postgres.ts'
import type { Run } from '../store.ts'
import { STATE } from '../state.ts'

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

/** Jobs that one claim from outside has started and that still run. */
export async function runsOfClaim(db: Statements, worker: number, claimId: string): Promise<Run[]> {
  const rows = await db.all<[seq: number, attempt: number]>(
    `SELECT seq, attempt FROM sluice.jobs WHERE state = ${STATE.active} AND worker = $1 AND claim = $2::uuid`,
    worker,
    claimId,
  )
  return rows.map(([seq, attempt]) => ({ seq, attempt }))
}
