import type { ReleasedClaims, RemoteClaim } from '../contract/remote-claims.ts'
import type { Run } from '../contract/store.ts'
import { column, columns, numbers } from './columns.ts'
import type { Reading } from './reading.ts'
import { type Access, all } from './sql.ts'
import { STATE } from './state.ts'

/** The error of a run whose lease was lost, as JSON text. */
export const LOST: string = JSON.stringify({
  code: 'lease.lost',
  message: 'The worker died or stopped extending its lease.',
})

const RUN = columns({ seq: column<number>(), attempt: column<number>() })
const CLAIMED = columns({
  ...numbers('seq', 'attempt', 'worker'),
  claimId: column<string>('claim'),
})
const ACTIVE = `sluice.jobs WHERE state = ${STATE.active} AND due IS NOT NULL`

/** A run of a remote claim. */
export interface ClaimedRun extends Run {
  readonly worker: number
  readonly claimId: string
}

/** Active jobs of a worker that it does not hold, from claims whose answer it never got. */
export function* lostClaims({ db }: Access, worker: number, held: readonly Run[]): Reading<Run[]> {
  const runs = new Set(held.map(({ seq, attempt }) => `${seq} ${attempt}`))
  const rows = yield* all(db, `SELECT ${RUN.list} FROM ${ACTIVE} AND worker = $1`, worker)
  return rows.map(RUN.read).filter(({ seq, attempt }) => !runs.has(`${seq} ${attempt}`))
}

/** Jobs that remote claims started and that still run. */
export function* runsOfClaims({ db }: Access, claims: readonly RemoteClaim[]): Reading<ClaimedRun[]> {
  const rows = yield* all(
    db,
    `SELECT ${CLAIMED.list} FROM ${ACTIVE} AND worker = ANY ($1::bigint[]) AND claim = ANY ($2::uuid[])`,
    claims.map(({ worker }) => worker),
    claims.map(({ claimId }) => claimId),
  )
  const made = new Set(claims.map(({ worker, claimId }) => `${worker} ${claimId}`))
  return rows.map(CLAIMED.read).filter(({ worker, claimId }) => made.has(`${worker} ${claimId}`))
}

/** Gives back runs of claims whose answer was lost, worker by worker. */
export async function releaseClaims(
  runs: readonly ClaimedRun[],
  giveBack: (worker: number, runs: readonly Run[]) => Promise<number>,
): Promise<ReleasedClaims> {
  let jobs = 0
  for (const [worker, own] of Map.groupBy(runs, (run) => run.worker)) jobs += await giveBack(worker, own)
  return { jobs, claimIds: [...new Set(runs.map(({ claimId }) => claimId))] }
}
