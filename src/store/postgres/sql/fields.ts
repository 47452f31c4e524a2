// The fields of JSON arrays that TypeScript and SQL exchange, in order, defined once for both. In the .sql files
// `{{lane_row.head}}` is the place of a field. They are arrays, not objects, because processes of an earlier version
// call the same functions beside newer ones. A claim also writes and reads many of them.

/** A limit that a job or a lane uses, in the form of `jobs.uses`; the owner, if one worker owns the bucket. */
export const USE = ['limit', 'key', 'worker'] as const
/** The fields of a pending job's `jobs.plan`, which its start needs. */
export const PLAN = ['reached', 'start_at', 'delay', 'share'] as const
/** The first fields of a stored scan cursor, `lanes.sieve`. */
export const SCAN_CURSOR = ['level', 'seq'] as const
/** A job's own terms. */
export const TERMS = ['lease', 'timeout', 'dead_letter', 'pending'] as const
/** The fields of a job for `enqueue_unique`. */
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
/** A job that a claim starts; `start` is null for one that starts at the claim's clock. */
export const GRANT = ['seq', 'permits', 'start'] as const
/** The columns of a lane as a claim reads it. */
export const LANE_READ = [
  'id',
  'queue',
  'buckets',
  'state',
  'bucket',
  'deputy_of',
  'priority',
  'turn',
  'head',
  'over',
  'share',
  'taken',
  'sieve',
  'passed',
] as const
/** The fields of a lane that a claim writes; `watches` are the buckets that may drop its jobs while it waits. */
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
/** A bucket that may drop a lane's jobs, and their need of it. */
export const WATCH = ['bucket', 'need'] as const
/** The fields of a bucket that a claim writes; without a state, its state and revision stay. */
export const BUCKET_ROW = ['id', 'wake_at', 'state', 'revision', 'active', 'deferred', 'told'] as const
/** A job that a claim ends; `skipped_due` is the end of its retention if it is a skipped occurrence. */
export const REJECTION = ['seq', 'state', 'due', 'error', 'skipped_due'] as const
/** A job that a limit reschedules. */
export const RESERVATION = ['seq', 'start'] as const
/** The next due times of jobs in these states, and of a wait list. */
export const NEXT = ['scheduled', 'retryable', 'available', 'wake_at'] as const
/** The next occurrences on both clocks, and a schedule whose missed ones may continue. */
export const FIRE = ['store', 'wall', 'released'] as const
/** A queue that is paused, or that has a limit set by an operator. */
export const HELD_QUEUE = ['queue', 'paused', 'limit'] as const
/** The unlimited lane of a queue that claims. */
export const UNLIMITED = ['queue', 'lane', 'slots'] as const
/** A wait list of which a claim reads more than of most, or whose way of reading it knows. */
export const LIST_READ = ['bucket', 'line', 'in_order', 'groups'] as const

/** Values by their fields, in the order that TypeScript and SQL share. */
export function inOrder<const Names extends readonly string[]>(
  names: Names,
  values: Readonly<Record<Names[number], unknown>>,
): unknown[] {
  return names.map((name) => values[name as Names[number]])
}
