import type { AdmissionSource } from './admission-source.ts'
import { mayPrecede } from './calls.ts'
import type { WaitList } from './wait-list.ts'
import { type Bucket, type Head, type Lane, type UnlistedJob, unlistedBefore } from './lane.ts'

/** A job of another worker goes first for this long. After that the worker is full or silent, and blocks no others. */
export const YIELD_US = 50_000

/** A decision that asks for the first lane of a wait list. */
interface Decision {
  readonly nowUs: number
  readonly slots: (queue: number) => number
  /** When a bucket alone admits the first job of a lane, from an instant on. */
  readonly needOf: (lane: Lane, bucket: Bucket, atUs: number) => number
}

/** The lanes of one decision whose first job another worker is to start. */
export class Yielding {
  readonly #source: AdmissionSource
  readonly #waitLists: ReadonlyMap<Bucket, WaitList>
  /** The end of the other worker's precedence. */
  readonly #untilUs = new Map<Lane, number>()

  constructor(source: AdmissionSource, waitLists: ReadonlyMap<Bucket, WaitList>) {
    this.#source = source
    this.#waitLists = waitLists
  }

  /**
   * The first lane of a wait list that blocks others: of a queue with slots here, or that another worker serves. That
   * worker is full or silent if the lane could have started for a while: then only lanes with slots here count, and its
   * deputies shadow none of them. The lanes stand in one order, whichever is left out: a decision would not end if two
   * were each behind the other.
   */
  first(waitList: WaitList, except: Lane | null, decision: Decision): Lane | null {
    const isHere = (queue: number): boolean => decision.slots(queue) > 0
    const blocks = (queue: number): boolean => isHere(queue) || this.#source.served(queue) === 'elsewhere'
    const isLate = (lane: Lane): boolean => !isHere(lane.queue) && this.#wasOpen(lane, decision)
    const holds = (deputy: Lane): boolean => blocks(deputy.queue) && !isLate(deputy)
    let lane = waitList.first(blocks, except, holds)
    // A process of plain code is never full. A silent one misses its turn, or each start would wait for it.
    while (lane && isLate(lane) && this.#source.ofCalls(lane.queue) && lane.turn < decision.nowUs) {
      lane.turn = decision.nowUs
      lane.changed = true
      waitList.join(lane)
      lane = waitList.first(blocks, except, holds)
    }
    if (!lane || isHere(lane.queue)) return lane
    if (!isLate(lane)) return this.#precedes(waitList, except, lane, { blocks, isHere, holds })
    // Where the list itself begins with a late lane, no deputy of another worker counts.
    const first = except ? waitList.first(blocks, null, holds) : lane
    return first && isLate(first) ? waitList.first(isHere, except) : waitList.first(isHere, except, holds)
  }

  /** The first lane that blocks others where calls of another process are first, which calls of this one may precede. */
  #precedes(
    waitList: WaitList,
    except: Lane | null,
    first: Lane,
    {
      blocks,
      isHere,
      holds,
    }: Record<'blocks' | 'isHere', (queue: number) => boolean> & { holds: (of: Lane) => boolean },
  ): Lane | null {
    const ofCalls = (queue: number): boolean => this.#source.ofCalls(queue)
    if (!ofCalls(first.queue)) return first
    const own = except ?? waitList.first(isHere, null, holds)
    if (!own || !isHere(own.queue) || !ofCalls(own.queue) || !mayPrecede(own, first, waitList.bucket)) return first
    return waitList.first((queue) => isHere(queue) || (blocks(queue) && !ofCalls(queue)), except, holds)
  }

  /** Until when a lane is left to another worker; undefined: it is not. */
  untilUs(lane: Lane): number | undefined {
    return this.#untilUs.get(lane)
  }

  /** Whether the first lane of a wait list, without a job for this claimer, is left to another worker. */
  ofFirst(lane: Lane, unlisted: UnlistedJob, dueAtUs: number | null, needUs: number, nowUs: number): boolean {
    if (!unlisted.known) return false
    const untilUs = (dueAtUs ?? needUs) + YIELD_US
    if (needUs <= nowUs && !(this.#source.yieldedSince && untilUs > nowUs)) return false
    this.#untilUs.set(lane, Math.max(needUs, untilUs))
    return true
  }

  /** Until when another worker has precedence for a job ahead of this head; null: none has. */
  ofHead(lane: Lane, head: Head, nowUs: number): number | null {
    const unlisted = unlistedBefore(this.#source, lane, head)
    if (!unlisted) return null
    const untilUs = (this.#source.yieldedSince?.(lane, unlisted.seq) ?? -Infinity) + YIELD_US
    if (untilUs <= nowUs) return null
    this.#untilUs.set(lane, untilUs)
    return untilUs
  }

  /** Whether a lane could have started for as long as its worker goes first, by the bucket that it waits for. */
  #wasOpen(lane: Lane, { nowUs, needOf }: Decision): boolean {
    const { on } = lane
    if (!on) return false
    const dueAtUs = this.#waitLists.has(on) ? this.#waitLists.get(on)?.dueAtUs : on.wakeAtUs
    const sinceUs = nowUs - YIELD_US
    return typeof dueAtUs === 'number' && dueAtUs <= sinceUs && needOf(lane, on, sinceUs) <= sinceUs
  }
}
