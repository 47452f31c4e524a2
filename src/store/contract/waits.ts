/** Reports on waiting jobs and their budgets: the reasons, the counts and the cost. */
import type { FlowPlace } from '../../jobs/flow.ts'
import type { JobRecord } from '../../jobs/job.ts'
import type { BudgetReport } from '../../policy/limits/allowance.ts'
import type { BucketState } from '../../policy/limits/bucket.ts'
import type { GuardInForce, Headroom, LimitPolicy } from '../../policy/limits/limit.ts'
import type { Override } from './limits.ts'

/** The reason why a job waits. */
export interface Explanation {
  readonly job: JobRecord
  /** The job waits until an engine that lists its task resolves its limits. */
  readonly unresolved?: true
  /** The buckets that must admit it, with its cost in each. */
  readonly uses: readonly { readonly limit: string; readonly key: string; readonly weight: number }[]
  /** Its task, a colon, and the key of `unique`; null: none. It holds the key unless the job has ended. */
  readonly uniqueKey: string | null
  /** The key that separates its lane from others with the same buckets; null: none. */
  readonly fairKey: string | null
  /** The starts of one turn of its lane; 1 for a job without a lane. */
  readonly share: number
  /** The bucket in whose wait list the job's lane stands, and the backend that keeps it; absent: the store does. */
  readonly waitsOn: { readonly limit: string; readonly key: string; readonly backend?: string } | null
  /** The part of that bucket's budget reserved for more urgent jobs; null: none. */
  readonly headroom: Headroom | null
  /** The guard of the bucket that it waits for; absent: none. */
  readonly guard?: GuardInForce
  /**
   * The bucket that guarantees it a share of the one that it waits for, and from when on (null: when one of its permits
   * returns); absent: none does.
   */
  readonly guarantee?: { readonly limit: string; readonly key: string; readonly fromUs: number | null }
  /**
   * With a limit of scope `worker` among its limits: for each live worker the bucket to wait for (null: none) and until
   * when.
   */
  readonly eachWorker?: readonly WorkerWait[]
  /** Jobs ahead of it in its lane, plus one; null when it does not wait. */
  readonly position: number | null
  /**
   * Jobs that start before it in the wait list of its only bucket, in any lane, plus one. Null: it needs several
   * buckets or none, or does not wait.
   */
  readonly linePosition: number | null
  /** The time when its present state began. */
  readonly sinceUs: number | null
  /** The possible start of the lane's head. */
  readonly untilUs: number | null
  /** The overrides and pauses in force for that bucket, and behind them those of its other buckets and of its queue that pause. */
  readonly overrides: readonly Override[]
  /**
   * Its expected start. For a scheduled or retryable job: the time when it joins its lane (wall clock for `scheduled`).
   * A job that a limit has rescheduled is shown as scheduled but stands in its lane: it gets the expected start of a
   * waiting job.
   */
  readonly expectedStartUs: number | null
  /** False: it starts no sooner than expected; other lanes, buckets, permits or a missing slot may delay it. */
  readonly exact: boolean
  /** The time when it is discarded unless it has started; null: never. */
  readonly givenUpAtUs: number | null
  /** Its queue is paused: none of its jobs starts. */
  readonly paused?: true
  /** A live worker serves its queue, and the queue is not paused. */
  readonly served: boolean
  /** A live worker that serves its queue lists its task. */
  readonly known: boolean
}

/** The wait of a job at one worker. */
export interface WorkerWait {
  readonly worker: number
  readonly waitsOn: { readonly limit: string; readonly key: string } | null
  /** Null: it may start there now, or a permit has to return. */
  readonly untilUs: number | null
}

/** Waiting jobs by the bucket that delays them. */
export interface Throttled {
  /** The place from which the next part counts; null: this was the last. */
  readonly next: number | null
  /** Waiting jobs that a closed bucket delays. */
  readonly waiting: number
  /** One row for each queue and bucket, the longest first, up to the requested number. */
  readonly rows: readonly ThrottledRow[]
}

/** Jobs of one queue in the wait list of one bucket. */
export interface ThrottledRow {
  readonly queue: string
  readonly limit: string
  readonly key: string
  /** The owner of the wait list, for a limit of scope `worker`; the same jobs stand in those of other workers too. */
  readonly worker?: number
  readonly waiting: number
  /** The possible start of the first in the wait list; null: a permit has to return first. */
  readonly nextStartUs: number | null
}

/** All jobs that wait for one bucket, with the data that a forecast needs. */
export interface BucketBacklog {
  readonly key: string
  /** The policy in force for this key; null: the limit is not defined. */
  readonly policy: LimitPolicy | null
  readonly state: BucketState
  readonly active: number
  /** Available jobs that need it, in any wait list. */
  readonly jobs: number
  readonly units: number
  /** All of these jobs cost the same. */
  readonly even: boolean
  /** The lowest and the highest given priority of these jobs; 0 without jobs. */
  readonly lowest: number
  readonly highest: number
  /** The most buckets, this one among them, that one of these jobs needs. */
  readonly needs: number
}

/** A bucket in whose wait list a first lane now stands. */
export interface Closed {
  readonly limit: string
  readonly key: string
  /** The owner, for a limit of scope `worker`; absent: all workers share it. */
  readonly worker?: number
  readonly queue: string
  /** Units that the refused head needs. */
  readonly wanted: number
  /** Jobs that this bucket admitted in the same claim. */
  readonly granted: number
  /** Their cost. */
  readonly grantedUnits: number
  /** Lanes whose heads it refused. Each counts as one job, which is not counted again when it starts. */
  readonly deferred: number
  /** All jobs in its wait list, not only the lanes' heads; counted up to 1,000. */
  readonly waiting: number
  /** The next possible start; null: a permit has to return first. */
  readonly nextAtUs: number | null
  /** False: the limit is not declared, and nothing starts before it is. */
  readonly defined: boolean
  /** The refused head, if the limit is not declared. */
  readonly refused?: { readonly task: string; readonly flow?: FlowPlace }
}

/** A bucket that no job waits for any more. */
export interface Released {
  readonly limit: string
  readonly key: string
  /** The owner, for a limit of scope `worker`; absent: all workers share it. */
  readonly worker?: number
  /** Jobs that had waited for it and have started since its last event. */
  readonly deferred: number
  /** The event's instant: that of the last start, which may have been granted ahead. */
  readonly atUs: number
}

/** A bucket that jobs still wait for. */
export interface Sustained extends Released {
  /** The next possible start; null: a permit has to return first. */
  readonly nextAtUs: number | null
}

/** An API's report of its budget, and how to read it. */
export interface CalibrationReport extends BudgetReport {
  readonly direction: 'down' | 'both'
  readonly reset: 'window' | 'refill'
}

/** The first of several workers to have budget again. That worker takes the job, and more workers may join. */
export function firstOf(workers: readonly WorkerWait[]): Pick<Explanation, 'waitsOn' | 'untilUs'> {
  if (workers.some((each) => each.waitsOn === null)) return { waitsOn: null, untilUs: null }
  const [first] = workers.toSorted((a, b) => (a.untilUs ?? Infinity) - (b.untilUs ?? Infinity))
  return { waitsOn: first?.waitsOn ?? null, untilUs: first?.untilUs ?? null }
}
