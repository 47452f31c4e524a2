import type { Settlement } from '../../jobs/job.ts'

/** A settlement with the worker that makes it. */
export interface SettleRequest {
  readonly worker: number
  readonly settlement: Settlement
  /** An earlier try failed, and may have been kept all the same; absent: this is the first. */
  readonly again?: boolean
}

/**
 * Settlements that are made together, in rounds to write one after the other: a statement with two of one job would write one of
 * them and tell both that theirs counts. A repetition of what an earlier one says of the same run is in no round: that run is settled.
 *
 * @returns in each round places in `requests`, in their order, no two of one job
 */
export function settleRounds(requests: readonly SettleRequest[]): readonly (readonly number[])[] {
  const all = requests.map((_, at) => at)
  if (new Set(requests.map(({ settlement }) => settlement.seq)).size === requests.length) return [all]
  const runs = new Set<string>()
  const roundOf = new Map<number, number>()
  const rounds: number[][] = []
  for (const [at, { worker, settlement }] of requests.entries()) {
    const run = `${settlement.seq} ${settlement.attempt} ${worker}`
    if (runs.has(run)) continue
    runs.add(run)
    const round = roundOf.get(settlement.seq) ?? 0
    roundOf.set(settlement.seq, round + 1)
    ;(rounds[round] ??= []).push(at)
  }
  return rounds
}
