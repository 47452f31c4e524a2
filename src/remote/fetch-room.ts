import type { FetchedJob } from './joined-claims.ts'

/** The jobs taken before the size of any is known. */
const FIRST_PORTION = 32
/** Bounds a portion, since its jobs may be larger than any before. */
const PORTION_AT_MOST = 128
/** The most failures that a job brings; the size of each is unknown before it is read. */
export const FAILURES_KEPT = 25
const FAILURE_BYTES = 8192

/**
 * The number of jobs that a fetch may still take. Sizes are known only after a claim, so the first portion is small and
 * predicts the others.
 */
export class FetchRoom {
  #jobs: number
  #bytes: number
  #largest = 0
  #first = true

  constructor(jobs: number, bytes: number) {
    this.#jobs = jobs
    this.#bytes = bytes
  }

  /** The number of jobs that the next claim may take. */
  get next(): number {
    if (this.#bytes === Infinity) return this.#jobs
    if (this.#bytes <= 0) return 0
    const fit = this.#first
      ? FIRST_PORTION
      : Math.max(1, Math.min(PORTION_AT_MOST, Math.floor(this.#bytes / Math.max(1, this.#largest))))
    return Math.min(this.#jobs, fit)
  }

  take(jobs: readonly FetchedJob[]): void {
    if (jobs.length > 0) this.#first = false
    this.#jobs -= jobs.length
    for (const { job } of jobs) {
      const { input, extra, attempt } = job
      const bytes = input.length + (extra?.length ?? 0) + Math.min(attempt - 1, FAILURES_KEPT) * FAILURE_BYTES
      this.#bytes -= bytes
      this.#largest = Math.max(this.#largest, bytes)
    }
  }
}
