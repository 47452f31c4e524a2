import type { JobDetails } from '../store/contract/remote-jobs.ts'

/** The most runs kept in memory, and the most characters of their payloads. */
const RUNS_AT_MOST = 20_000
const CHARACTERS_AT_MOST = 33_554_432

/**
 * Runs that this process has handed to remote workers, so that the settlement of one need not read its job first. A
 * run may have ended elsewhere meanwhile: the store writes a settlement only for the run that it names. The oldest are
 * forgotten first, and their settlements read their jobs.
 */
export class HandedRuns {
  readonly #runs = new Map<string, JobDetails>()
  #characters = 0

  add(jobs: readonly JobDetails[]): void {
    for (const job of jobs) {
      this.take(job.id)
      this.#runs.set(job.id, job)
      this.#characters += charactersOf(job)
    }
    for (const id of this.#runs.keys()) {
      if (this.#runs.size <= RUNS_AT_MOST && this.#characters <= CHARACTERS_AT_MOST) return
      this.take(id)
    }
  }

  /** The run of a job, which is forgotten; null: it is not known. */
  take(id: string): JobDetails | null {
    const job = this.#runs.get(id)
    if (!job) return null
    this.#runs.delete(id)
    this.#characters -= charactersOf(job)
    return job
  }

  clear(): void {
    this.#runs.clear()
    this.#characters = 0
  }
}

function charactersOf({ input, extra, errors, parentResults }: JobDetails): number {
  const failed = errors.reduce((sum, { message }) => sum + message.length, 0)
  const results = (parentResults ?? []).reduce((sum, text) => sum + (text?.length ?? 0), 0)
  return input.length + (extra?.length ?? 0) + failed + results
}
