import type { GrantedJob } from '../../jobs/job.ts'
import { Counter, outcomeOf, Timer } from './counted.ts'
import { SeriesTally } from './series-tally.ts'
import { WaitHistogram } from './wait-histogram.ts'

/** A job as counts know it. */
type Named = Pick<GrantedJob, 'task' | 'queue'>

/** Receives times as they are counted. */
export interface TimesListener {
  ran(job: Named, isFailed: boolean, seconds: number): void
  claimed(isFailed: boolean, seconds: number): void
}

/** Counts what this process does: for monitors since its start, and for the store's series in steps. */
export class Figures {
  readonly waits: WaitHistogram = new WaitHistogram()
  readonly series: SeriesTally
  /** Starts, by queue and task. */
  readonly started: Counter = new Counter()
  /** Completed runs, by queue and task. */
  readonly completed: Counter = new Counter()
  /** Failed runs, by queue and task. */
  readonly failed: Counter = new Counter()
  /** Jobs that ended without success, by queue and task. */
  readonly discarded: Counter = new Counter()
  /** The time of runs, by task and outcome. */
  readonly runs: Timer = new Timer()
  /** Units that starts were charged, by limit. */
  readonly units: Counter = new Counter()
  /** Jobs that had to wait for a budget, by limit. */
  readonly throttled: Counter = new Counter()
  /** The time of claims, by outcome. */
  readonly claims: Timer = new Timer()
  readonly #listeners = new Set<TimesListener>()
  #claimedUs: number | null = null

  /** @param nowMs wall clock */
  constructor(nowMs: () => number) {
    this.series = new SeriesTally(nowMs)
  }

  /** When the last claim succeeded, on the steady clock; null: none has. */
  get claimedUs(): number | null {
    return this.#claimedUs
  }

  /** Calls a listener for each time that is counted. Returns a function that stops it. */
  listen(listener: TimesListener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Counts a start. */
  start(job: GrantedJob): void {
    this.waits.add(job)
    this.series.started(job)
    this.started.add([job.queue, job.task])
    for (const { limit, weight } of job.uses) this.units.add([limit], weight)
  }

  /** Counts the end of a run. */
  end(job: Named, isFailed: boolean, ranMs: number): void {
    const { queue, task } = job
    this.series.ended(job, isFailed, ranMs)
    const counter = isFailed ? this.failed : this.completed
    counter.add([queue, task])
    this.runs.add([task, outcomeOf(isFailed)], ranMs / 1000)
    for (const listener of this.#listeners) listener.ran(job, isFailed, ranMs / 1000)
  }

  /** Counts a job that ended without success. */
  discard({ queue, task }: Named): void {
    this.discarded.add([queue, task])
  }

  /** Counts jobs that had to wait for a budget. */
  denied(bucket: { readonly limit: string; readonly key: string }, jobs: number): void {
    if (jobs <= 0) return
    this.series.denied(bucket, jobs)
    this.throttled.add([bucket.limit], jobs)
  }

  /** Counts a claim. @param nowUs its end, and @param beganUs its begin, on the steady clock */
  claim(isFailed: boolean, beganUs: number, nowUs: number): void {
    const seconds = Math.max(0, nowUs - beganUs) / 1e6
    if (!isFailed) this.#claimedUs = nowUs
    this.series.claimed(isFailed, seconds * 1000)
    this.claims.add([outcomeOf(isFailed)], seconds)
    for (const listener of this.#listeners) listener.claimed(isFailed, seconds)
  }
}
