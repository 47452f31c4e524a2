import type { AdmissionSource } from './admission-source.ts'
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
  /** The end of the other worker's precedence. */
  readonly #untilUs = new Map<Lane, number>()

  constructor(source: AdmissionSource) {
    this.#source = source
  }

  /**
   * The first lane of a wait list that blocks others: of a queue with slots here, or that another worker serves. That
   * worker is full or silent if the lane could have started for a while: then only lanes with slots here count.
   */
  first(waitList: WaitList, except: Lane | null, { nowUs, slots, needOf }: Decision): Lane | null {
    const isHere = (queue: number): boolean => slots(queue) > 0
    const lane = waitList.first((queue) => isHere(queue) || this.#source.served(queue) === 'elsewhere', except)
    const { bucket, dueAtUs } = waitList
    const sinceUs = nowUs - YIELD_US
    if (!lane || isHere(lane.queue) || dueAtUs === null || dueAtUs > sinceUs) return lane
    return needOf(lane, bucket, sinceUs) > sinceUs ? lane : waitList.first(isHere, except)
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
}
