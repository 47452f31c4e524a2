/** What a store tells of waiting jobs, and is told of their budgets: why each waits, how many wait where, what they would cost. */
import type { JobRecord } from '../../jobs/job.ts'
import type { BudgetReport } from '../../policy/limits/allowance.ts'
import type { BucketState } from '../../policy/limits/bucket.ts'
import type { Headroom, LimitPolicy } from '../../policy/limits/limit.ts'
import type { Override } from './overrides.ts'

/** Why a job waits. */
export interface Explanation {
  readonly job: JobRecord
  /** It waits until an engine that knows its task says what its limits are. */
  readonly unresolved?: true
  /** The buckets that must admit it, with the units that it costs there. */
  readonly uses: readonly { readonly limit: string; readonly key: string; readonly weight: number }[]
  /** What splits its lane from others with the same buckets; null: nothing does. */
  readonly fairKey: string | null
  /** Starts that one turn of its lane has; 1 for a job that stands in no lane. */
  readonly share: number
  /** The bucket whose line the job's lane stands in. */
  readonly waitsOn: { readonly limit: string; readonly key: string } | null
  /** What that bucket keeps back from it for more urgent jobs; null: nothing. */
  readonly headroom: Headroom | null
  /** Where a limit of scope `worker` is among its limits: the bucket that each live worker has to wait for, null: none, and until when. */
  readonly eachWorker?: readonly WorkerWait[]
  /** Jobs ahead of it in its lane, plus one; null when it does not wait. */
  readonly position: number | null
  /**
   * Jobs that start before it in the line of its only bucket, whatever lane they stand in, plus one; null when it needs several
   * buckets or none, or does not wait.
   */
  readonly linePosition: number | null
  /** When it came to its present state. */
  readonly sinceUs: number | null
  /** When the head of the lane may start. */
  readonly untilUs: number | null
  /** What is in force for that bucket beside the definition. */
  readonly overrides: readonly Override[]
  /**
   * When it will start; of a scheduled or retryable job, when it joins its lane (wall clock for `scheduled`). A job that a limit has put
   * off is shown as scheduled but stands in its lane: of it this is told as of any that waits.
   */
  readonly expectedStartUs: number | null
  /** False: it starts no sooner than expected; other lanes, buckets, permits or a free slot may delay it. */
  readonly exact: boolean
  /** When it is given up unless it has started; null: never. */
  readonly givenUpAtUs: number | null
  /** A live worker serves its queue. */
  readonly served: boolean
  /** A live worker that serves its queue knows its task. */
  readonly known: boolean
}

/** How a job stands with one worker. */
export interface WorkerWait {
  readonly worker: number
  readonly waitsOn: { readonly limit: string; readonly key: string } | null
  /** Null: it may start there now, or a permit has to return. */
  readonly untilUs: number | null
}

/** Waiting jobs by what holds them back. */
export interface Throttled {
  /** Waiting jobs that a closed bucket holds back. */
  readonly waiting: number
  /** One row for each queue and bucket, the longest first; at most as many as were asked for. */
  readonly rows: readonly ThrottledRow[]
}

/** Jobs of one queue in the line of one bucket. */
export interface ThrottledRow {
  readonly queue: string
  readonly limit: string
  readonly key: string
  /** Of a limit of scope `worker`: whose line it is; the same jobs stand in those of other workers too. */
  readonly worker?: number
  readonly waiting: number
  /** When the first of the line may start; null when a permit has to return. */
  readonly nextStartUs: number | null
}

/** All that waits for one bucket, with what a forecast needs of it. */
export interface BucketBacklog {
  readonly key: string
  /** As it holds for this key; null: the limit is not defined. */
  readonly policy: LimitPolicy | null
  readonly state: BucketState
  readonly active: number
  /** Available jobs that need it, wherever their lanes stand. */
  readonly jobs: number
  readonly units: number
  /** All of them cost the same. */
  readonly even: boolean
  /** The lowest priority that one of them was given, and the highest; 0 of none. */
  readonly lowest: number
  readonly highest: number
}

/** A bucket that nobody waits for any more. */
export interface Released {
  readonly limit: string
  readonly key: string
  /** Of a limit of scope `worker`: whose own it is; absent: it is the fleet's. */
  readonly worker?: number
  /** Jobs that had waited for it and have started since it was last told of. */
  readonly deferred: number
}

/** A bucket that jobs go on waiting for. */
export interface Sustained extends Released {
  /** When the next may go; null when a permit has to return first. */
  readonly nextAtUs: number | null
}

/** What the other side said of its budget, and what it is taken for. */
export interface CalibrationReport extends BudgetReport {
  readonly direction: 'down' | 'both'
  readonly reset: 'window' | 'refill'
}

/** Of several workers the first that has budget again; whoever that is takes it, and more may come. */
export function firstOf(workers: readonly WorkerWait[]): Pick<Explanation, 'waitsOn' | 'untilUs'> {
  if (workers.some((each) => each.waitsOn === null)) return { waitsOn: null, untilUs: null }
  const [first] = workers.toSorted((a, b) => (a.untilUs ?? Infinity) - (b.untilUs ?? Infinity))
  return { waitsOn: first?.waitsOn ?? null, untilUs: first?.untilUs ?? null }
}
