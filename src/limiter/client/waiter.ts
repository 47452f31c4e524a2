import type { BucketUse, Granted } from '../contract/limiter.ts'

/** A call that waits for its units. */
export interface Waiter {
  readonly uses: readonly BucketUse[]
  readonly priority: number
  /** On this process's steady clock; Infinity: it waits without bound; -Infinity: it wants an answer at once. */
  readonly untilUs: number
  /** It has its answer, or its caller has stopped waiting. */
  settled: boolean
  /** A start was told to it too late, and went back. */
  wasLate: boolean
  granted(answer: Granted): void
  failed(error: Error): void
}

/** Whether a denial of `denied` also denies a newcomer: it asks for no less, and has no right to more. */
export function isCovered(
  newcomer: Pick<Waiter, 'uses' | 'priority'>,
  denied: Pick<Waiter, 'uses' | 'priority'>,
): boolean {
  if (newcomer.priority > denied.priority) return false
  return newcomer.uses.every((use, i) => use.weight >= (denied.uses[i]?.weight ?? Infinity))
}
