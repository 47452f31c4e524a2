import type { Clock } from '../base/clock.ts'
import { SluiceError } from '../base/errors.ts'
import type { Settled, Settlement } from '../jobs/job.ts'
import { isFinal } from '../jobs/job-state.ts'
import type { Store } from '../store/store.ts'

/** What a settlement is written with. */
export interface SettleAgainOptions {
  readonly store: Store
  readonly clock: Clock
  readonly worker: number
  /** The job's id, to look it up by. */
  readonly id: string
  readonly settlement: Settlement
  /** For how long it is tried again, ms from the first failure. */
  readonly withinMs: number
  /** Whether it must not be tried again: the worker has no more time. */
  readonly givesUp: () => boolean
  /** Told of every failure after which it is tried again. */
  readonly failed: (error: unknown) => void
}

const FIRST_DELAY_MS = 100
const LONGEST_DELAY_MS = 2000

/**
 * Settles a run, and goes on trying while the store is away: what a run came to outlives a restart of the database.
 * @throws what the store throws when it is not that it is away, or when it stays away
 */
export async function settleAgain(options: SettleAgainOptions): Promise<Settled> {
  const { store, clock, worker, settlement, withinMs, givesUp, failed } = options
  const endUs = clock.monotonicUs() + withinMs * 1000
  for (let delayMs = FIRST_DELAY_MS, tries = 1; ; delayMs = Math.min(2 * delayMs, LONGEST_DELAY_MS), tries++) {
    try {
      const settled = await store.settle(worker, settlement)
      return settled.kind === 'lost' && tries > 1 ? await itsOwn(options, settled) : settled
    } catch (error) {
      const isAway = error instanceof SluiceError && error.code === 'store.io'
      if (!isAway || givesUp() || clock.monotonicUs() >= endUs) throw error
      failed(error)
    }
    await new Promise<void>((resolve) => clock.setTimer(resolve, delayMs))
  }
}

/** An earlier try may have been written though its answer got lost: only the owner of an attempt can have ended the job in it. */
async function itsOwn({ store, id, settlement }: SettleAgainOptions, lost: Settled): Promise<Settled> {
  const job = await store.get(id)
  if (!job || job.attempt !== settlement.attempt || !isFinal(job.state)) return lost
  return job.error?.code === 'lease.lost' ? lost : { kind: 'settled', state: job.state }
}
