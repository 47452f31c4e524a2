import type { Run } from '../store.ts'
import type { Context } from './context.ts'
import { STATE } from '../state.ts'

/** Jobs that one claim from outside has started and that still run. */
export function runsOfClaim({ db }: Context, worker: number, claimId: string): Run[] {
  return db
    .all<[seq: number, attempt: number]>(
      `SELECT seq, attempt FROM jobs WHERE state = ${STATE.active} AND due IS NOT NULL AND worker = ? AND claim = ?`,
      worker,
      claimId,
    )
    .map(([seq, attempt]) => ({ seq, attempt }))
}

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
