import type { BucketName, BucketUse } from '../contract/limiter.ts'
import { isCovered, type Waiter } from './waiter.ts'

/** A denial that is remembered. */
export interface Closure {
  /** When the buckets open, or a guess; on this process's steady clock. */
  readonly opensUs: number
  /** The line asks again then. */
  readonly againUs: number
  readonly by: BucketName
  /** The backend gave the instant; false: a permit must return first. */
  readonly isExact: boolean
  readonly denied: Pick<Waiter, 'uses' | 'priority'>
}

/** The waiters of one set of buckets: by priority, then first come. */
export class Line {
  readonly id: string
  readonly uses: readonly BucketUse[]
  readonly waiters: Waiter[] = []
  /** A block of it will be asked for in this turn. */
  isReady = false
  /** A block of it is asked for now. */
  asking = false
  /** The buckets changed while it was asked for: a denial may be old. */
  stale = false
  closure: Closure | null = null
  /** Starts whose units are on their way back: until then the buckets seem fuller than they are. */
  returning = 0
  /** How fast its bucket opens since its last refusal; null: not known, or not one start after the other. */
  pace: { readonly opensUs: number; readonly intervalUs: number } | null = null
  /** Denials in a row without an instant: the line asks less and less often. */
  polls = 0

  constructor(id: string, uses: readonly BucketUse[]) {
    this.id = id
    this.uses = uses
  }

  /** Whether it may be forgotten. */
  isIdle(nowUs: number): boolean {
    return this.waiters.length === 0 && !this.asking && this.returning === 0 && !this.isClosed(nowUs)
  }

  isClosed(nowUs: number): boolean {
    return this.closure !== null && this.closure.againUs > nowUs
  }

  /** The remembered denial that a newcomer gets without asking; null: it asks. */
  denialOf(newcomer: Pick<Waiter, 'uses' | 'priority'>, nowUs: number): Closure | null {
    const { closure } = this
    if (!closure || closure.againUs <= nowUs) return null
    return this.waiters.length > 0 || isCovered(newcomer, closure.denied) ? closure : null
  }

  /** True: it may have a right to a reserve that those who were denied have not. */
  join(waiter: Waiter): boolean {
    const { waiters } = this
    let place = waiters.length
    while (place > 0 && isBefore(waiter, waiters[place - 1] as Waiter)) place--
    if (place === waiters.length) waiters.push(waiter)
    else waiters.splice(place, 0, waiter)
    return place === 0 && this.closure !== null && waiter.priority > this.closure.denied.priority
  }

  leave(waiter: Waiter): void {
    const place = this.waiters.indexOf(waiter)
    if (place >= 0) this.waiters.splice(place, 1)
  }

  /** The first waiters. */
  block(atMost: number): readonly Waiter[] {
    return this.waiters.slice(0, atMost)
  }

  /** Removes those that have their answer. */
  clear(): void {
    const { waiters } = this
    let first = 0
    while (waiters[first]?.settled === true) first++
    if (first > 0) waiters.splice(0, first)
    if (!waiters.some((waiter) => waiter.settled)) return
    const rest = waiters.filter((waiter) => !waiter.settled)
    waiters.splice(0, waiters.length, ...rest)
  }
}

/** One whose start came too late has its old place. */
function isBefore(one: Waiter, other: Waiter): boolean {
  return one.priority === other.priority ? one.seq < other.seq : one.priority > other.priority
}
