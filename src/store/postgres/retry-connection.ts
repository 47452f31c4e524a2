import type { Clock } from '../../base/clock.ts'
import { persist } from '../../base/persist.ts'
import type { Statements } from '../../database/statements.ts'
import { codeOf } from '../../database/postgres-error.ts'
import type { Context } from './context.ts'
import { currentLimits } from './limit-timelines.ts'

/** The time limit for retries of work that no caller waits for. */
const GIVE_UP_MS = 120_000
/** The shorter limit for a caller that only reads. */
export const READ_GIVE_UP_MS: number = 10_000

/**
 * Repeats work while the server is unreachable or temporarily refuses. `again` is true if the work may have been done
 * before.
 * @param giveUpMs the time after which it throws; default two minutes
 * @throws the work's error if that is permanent, or lasts too long
 */
export function whenReachable<T>(
  clock: Clock,
  work: (again: boolean) => Promise<T>,
  giveUpMs: number = GIVE_UP_MS,
): Promise<T> {
  return persist(clock, giveUpMs, work)
}

/**
 * Repeats work that places jobs if the pace of ageing has changed meanwhile; the connection must stay usable after an
 * error.
 */
export async function autocommit<T>(context: Context, db: Statements, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (codeOf(error) !== 'SL003') throw error
    await currentLimits(context, db)
    return work()
  }
}
