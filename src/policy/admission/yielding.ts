import type { AdmissionSource } from './admission-source.ts'
import { type Head, type Lane, type UnlistedJob, unlistedBefore } from './lane.ts'

/** A job of another worker goes first for this long. After that the worker is full or silent, and blocks no others. */
const YIELD_US = 50_000

/** The lanes of one decision whose first job another worker is to start. */
export class Yielding {
  readonly #source: AdmissionSource
  /** The end of the other worker's precedence. */
  readonly #untilUs = new Map<Lane, number>()

  constructor(source: AdmissionSource) {
    this.#source = source
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
