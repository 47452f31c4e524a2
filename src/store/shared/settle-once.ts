import type { Settlement } from '../../jobs/settlement.ts'
import type { Retention } from '../contract/store.ts'
import { STATE } from './state.ts'

/** A settlement and its worker. */
export interface SettleRequest {
  readonly worker: number
  readonly settlement: Settlement
  /** An earlier try failed, and may have been written nevertheless; absent: this is the first. */
  readonly again?: boolean
}

/**
 * Splits settlements made together into rounds, which the store writes one after the other. A statement with two
 * settlements of one job would write one and report success for both. A repetition of an earlier settlement of the same
 * run is in no round: that run is settled.
 *
 * @returns in each round places in `requests`, in their order, no two of one job; but before another settlement of a
 * run there may be moves by which it stays
 */
export function settleRounds(requests: readonly SettleRequest[]): readonly (readonly number[])[] {
  const all = requests.map((_, at) => at)
  if (new Set(requests.map(({ settlement }) => settlement.seq)).size === requests.length) return [all]
  const runs = new Set<string>()
  const roundOf = new Map<number, number>()
  const rounds: number[][] = []
  for (const [at, { worker, settlement }] of requests.entries()) {
    const run = `${settlement.seq} ${settlement.attempt} ${settlement.moves ?? ''} ${worker}`
    if (runs.has(run)) continue
    const stays = settlement.kind === 'next' && settlement.move.then.kind === 'stay'
    if (!stays) runs.add(run)
    const round = roundOf.get(settlement.seq) ?? 0
    if (!stays) roundOf.set(settlement.seq, round + 1)
    ;(rounds[round] ??= []).push(at)
  }
  return rounds
}

/** The end of a run by its settlement, unless a caller asked to cancel the job. */
export interface RunEnd {
  readonly state: number
  /** The time from now to the end of its retention or its next start, by the wall clock if scheduled; null: none. */
  readonly afterUs: number | null
  readonly result: string | null
  /** JSON text. */
  readonly error: string | null
  /** 1: the attempt does not count. */
  readonly back: number
}

/** The effect of a settlement on its job. */
export function runEndOf(settlement: Settlement, retention: Retention): RunEnd {
  if (settlement.kind === 'next') throw new RangeError('A move is no end of a run')
  const end = (state: number, afterUs: number | null, error: object | null = null): RunEnd => ({
    state,
    afterUs,
    result: settlement.kind === 'complete' ? settlement.result : null,
    error: error && JSON.stringify(error),
    back: attemptBack(settlement),
  })
  const { keepUs } = settlement
  if (settlement.kind === 'complete') return end(STATE.completed, completedUs(settlement, retention))
  if (settlement.kind === 'cancel') return end(STATE.cancelled, keepUs ?? retention.cancelledUs)
  if (settlement.kind === 'discard') return end(STATE.discarded, keepUs ?? retention.discardedUs, settlement.error)
  if (settlement.kind === 'give-back') return end(STATE.available, null)
  if (settlement.kind === 'snooze') return end(STATE.scheduled, settlement.delayUs)
  if (settlement.kind === 'push-back') {
    if (settlement.limit === null || settlement.apart)
      return end(STATE.retryable, settlement.closedForUs, settlement.error)
    return end(STATE.available, null, settlement.error)
  }
  return settlement.delayUs <= 0
    ? end(STATE.available, null, settlement.error)
    : end(STATE.retryable, settlement.delayUs, settlement.error)
}

/** How long a completed job is kept, in µs. */
export function completedUs(
  { keepUs, keepAtLeastUs = 0 }: Pick<Settlement, 'keepUs' | 'keepAtLeastUs'>,
  retention: Retention,
): number {
  return Math.max(keepUs ?? retention.completedUs, keepAtLeastUs)
}

/** Whether this completes a job that is not known to belong to a flow. */
export function completesAlone(settlement: Settlement): settlement is Extract<Settlement, { kind: 'complete' }> {
  const { kind, inFlow, moves } = settlement
  return kind === 'complete' && !inFlow && moves === undefined
}

/** Whether the end of a run deletes its job, unless that belongs to a flow: it completed, and is kept for no time. */
export function deletesJob(settlement: Settlement, retention: Retention): boolean {
  return completesAlone(settlement) && completedUs(settlement, retention) === 0
}

/** The number of attempts that a settlement gives back. */
export function attemptBack({ kind }: Settlement): number {
  return kind === 'push-back' || kind === 'give-back' || kind === 'snooze' ? 1 : 0
}
