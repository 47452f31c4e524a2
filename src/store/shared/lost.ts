import type { ReleasedClaims, Run } from '../contract/store.ts'

/** The error of a run whose lease was lost, as JSON text. */
export const LOST: string = JSON.stringify({
  code: 'lease.lost',
  message: 'The worker died or stopped extending its lease.',
})

/** A run of a remote claim. */
export interface ClaimedRun extends Run {
  readonly worker: number
  readonly claimId: string
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
