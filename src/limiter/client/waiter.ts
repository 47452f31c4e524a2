import { SluiceError } from '../../base/errors.ts'
import { brief } from '../../base/options.ts'
import type { BucketUse, Granted } from '../contract/limiter.ts'

/** A call that waits for its units. */
export class Waiter {
  /** The order of the calls of this limiter. */
  readonly seq: number
  readonly uses: readonly BucketUse[]
  readonly priority: number
  /** On this process's steady clock; Infinity: it waits without bound; -Infinity: it wants an answer at once. */
  readonly untilUs: number
  /** It has its answer, or its caller has stopped waiting. */
  settled = false
  /** A start was told to it too late, and went back. */
  wasLate = false
  readonly #answer: CallerOf<Granted>
  #abort: (() => void) | null = null

  constructor(seq: number, uses: readonly BucketUse[], priority: number, untilUs: number, answer: CallerOf<Granted>) {
    this.seq = seq
    this.uses = uses
    this.priority = priority
    this.untilUs = untilUs
    this.#answer = answer
  }

  granted(granted: Granted): void {
    this.#end()
    this.#answer.resolve(granted)
  }

  failed(error: Error): void {
    this.#end()
    this.#answer.reject(error)
  }

  /** It stops waiting when the signal aborts. */
  follow(signal: AbortSignal, left: () => void): void {
    const abort = (): void => {
      left()
      this.failed(signal.reason as Error)
    }
    signal.addEventListener('abort', abort)
    this.#abort = () => signal.removeEventListener('abort', abort)
  }

  #end(): void {
    this.settled = true
    this.#abort?.()
    this.#answer.ended()
  }
}

/** The caller of a waiter. */
export interface CallerOf<T> {
  readonly resolve: (value: T) => void
  readonly reject: (error: Error) => void
  /** It waits no longer. */
  readonly ended: () => void
}

/** Whether a denial of `denied` also denies a newcomer: it asks for no less, and has no right to more. */
export function isCovered(
  newcomer: Pick<Waiter, 'uses' | 'priority'>,
  denied: Pick<Waiter, 'uses' | 'priority'>,
): boolean {
  if (newcomer.priority > denied.priority) return false
  return newcomer.uses.every((use, i) => use.weight >= (denied.uses[i]?.weight ?? Infinity))
}

/** The refusal of a call where as many wait already as may. */
export function full(waiting: number): SluiceError {
  return new SluiceError(
    'limiter.full',
    `${waiting} calls wait for this limiter already. Slow the callers down, or raise maxWaiting.`,
  )
}

/** The failure of a call whose backend does not know a limit. */
export function unknown(limit: string): SluiceError {
  return new SluiceError('limit.unknown', `The backend does not know the limit ${brief(limit)}.`)
}
