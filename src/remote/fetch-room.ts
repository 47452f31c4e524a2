import type { GrantedJob } from '../jobs/job.ts'

/** So many jobs are taken before the size of any is known. */
const FIRST_PORTION = 32
/** The next may be larger ones than any before. */
const PORTION_AT_MOST = 128
/** Failures come along with a job; how large they are is not known before it is read. */
const FAILURES_KEPT = 25
const FAILURE_BYTES = 8192

/** How many jobs a fetch may still take. Their size is known only once they are taken: the first portion is small, and tells of the others. */
export class FetchRoom {
  #jobs: number
  #bytes: number
  #largest = 0
  #first = true

  constructor(jobs: number, bytes: number) {
    this.#jobs = jobs
    this.#bytes = bytes
  }

  /** How many may be taken at once now. */
  get next(): number {
    if (this.#bytes === Infinity) return this.#jobs
    if (this.#bytes <= 0) return 0
    const fit = this.#first
      ? FIRST_PORTION
      : Math.max(1, Math.min(PORTION_AT_MOST, Math.floor(this.#bytes / Math.max(1, this.#largest))))
    return Math.min(this.#jobs, fit)
  }

  take(jobs: readonly GrantedJob[]): void {
    if (jobs.length > 0) this.#first = false
    this.#jobs -= jobs.length
    for (const { input, extra, attempt } of jobs) {
      const bytes = input.length + (extra?.length ?? 0) + Math.min(attempt - 1, FAILURES_KEPT) * FAILURE_BYTES
      this.#bytes -= bytes
      this.#largest = Math.max(this.#largest, bytes)
    }
  }
}
