// JSON arrays that cross between TypeScript and SQL: their fields, in order, once for both. In the .sql files
// `{{lane_row.head}}` is the place of a field. They are arrays, not objects, because a process of an earlier version
// goes on beside a newer one and calls the same functions; and a claim writes and reads many of them.

/** A limit that a job or a lane uses, as `jobs.uses` keeps it; whose bucket it is, where that is one worker's. */
export const USE = ['limit', 'key', 'worker'] as const
/** What is not known of a pending job before its time comes, as `jobs.plan` keeps it. */
export const PLAN = ['reached', 'start_at', 'delay', 'share'] as const
/** The first fields of `lanes.sieve`. */
export const SCAN_CURSOR = ['level', 'seq'] as const
/** A job's own terms. */
export const TERMS = ['lease', 'timeout', 'dead_letter', 'pending'] as const
/** A job as `enqueue_unique` takes it. */
export const NEW_JOB = [
  'id',
  'task',
  'queue',
  'lane',
  'level',
  'max_attempts',
  'run_at',
  'expires',
  'uses',
  'weights',
  'unique_key',
  'input',
  'extra',
  'schedule',
  'occurs',
  'priority',
  'fair',
  'share',
  'reached',
  'conflict',
  'states',
  'within',
  'terms',
] as const
/** A job that a claim starts. */
export const GRANT = ['seq', 'permits'] as const
/** A lane as a claim leaves it; `watches` are the buckets that may drop its jobs where it waits. */
export const LANE_ROW = [
  'id',
  'state',
  'bucket',
  'over',
  'deputy_of',
  'priority',
  'head',
  'turn',
  'taken',
  'sieve',
  'passed',
  'watches',
] as const
/** A bucket that may drop a lane's jobs, and what they need of it. */
export const WATCH = ['bucket', 'need'] as const
/** A bucket as a claim leaves it; without a state that and its revision stay. */
export const BUCKET_ROW = ['id', 'wake_at', 'state', 'revision', 'active', 'deferred', 'told'] as const
/** A job that a claim ends; `skipped_due` is the end of its retention where it is a skipped occurrence. */
export const REJECTION = ['seq', 'state', 'due', 'error', 'skipped_due'] as const
/** A job that a limit reschedules. */
export const RESERVATION = ['seq', 'start'] as const
/** When jobs of these states come due, and the next wait list. */
export const NEXT = ['scheduled', 'retryable', 'available', 'wake_at'] as const
/** The next occurrences on either clock, and a schedule whose missed ones wait no longer. */
export const FIRE = ['store', 'wall', 'released'] as const
/** A queue that is paused, or that was given a limit. */
export const HELD_QUEUE = ['queue', 'paused', 'limit'] as const
/** The unlimited lane of a queue that claims. */
export const UNLIMITED = ['queue', 'lane', 'slots'] as const

/** Values by their fields, in the order that both sides know. */
export function inOrder<const Names extends readonly string[]>(
  names: Names,
  values: Readonly<Record<Names[number], unknown>>,
): unknown[] {
  return names.map((name) => values[name as Names[number]])
}
