import type { ClaimedRun } from '../shared/lost.ts'
import type { RemoteClaim, Run } from '../contract/store.ts'
import type { Context } from './context.ts'
import { STATE } from '../shared/state.ts'

/** Active jobs of a worker that it does not hold: of claims whose answer it never got. */
export function lostClaims({ db }: Context, worker: number, held: readonly Run[]): Run[] {
  const runs = new Set(held.map(({ seq, attempt }) => `${seq} ${attempt}`))
  return db
    .all<[seq: number, attempt: number]>(
      `SELECT seq, attempt FROM jobs WHERE state = ${STATE.active} AND due IS NOT NULL AND worker = ?`,
      worker,
    )
    .map(([seq, attempt]) => ({ seq, attempt }))
    .filter(({ seq, attempt }) => !runs.has(`${seq} ${attempt}`))
}

/** Jobs that remote claims have started and that still run. */
export function runsOfClaims({ db }: Context, claims: readonly RemoteClaim[]): ClaimedRun[] {
  return db
    .all<[seq: number, attempt: number, worker: number, claimId: string]>(
      `SELECT j.seq, j.attempt, j.worker, j.claim FROM jobs j JOIN json_each(?) c ON j.worker = c.value ->> 0 AND j.claim = c.value ->> 1
       WHERE j.state = ${STATE.active} AND j.due IS NOT NULL`,
      JSON.stringify(claims.map(({ worker, claimId }) => [worker, claimId])),
    )
    .map(([seq, attempt, worker, claimId]) => ({ seq, attempt, worker, claimId }))
}
