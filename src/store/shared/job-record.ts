import type { JobRecord } from '../../jobs/job.ts'
import { NEVER_US } from '../../policy/admission/lane.ts'
import type { JobDetails } from '../contract/remote-jobs.ts'
import { column, type Columns, columns, numbers, numbersOrNull, texts, textsOrNull } from './columns.ts'
import { occurrenceOf } from '../../jobs/series.ts'
import { errorOf, failuresOf } from './set-aside.ts'
import type { Access } from './sql.ts'
import { isEnd, LANE, STATE, stateName } from './state.ts'
import { wallOffset } from './stored-bucket.ts'
import { placeIn } from './stored-flows.ts'

/** The columns of a job record. */
export interface RecordFields {
  readonly seq: number
  readonly id: string
  readonly task: string
  /** Its name, or a store's number for the name. */
  readonly queue: string | number
  /** Both clocks at the read. */
  readonly nowUs: number
  readonly wallUs: number
  readonly state: number
  readonly priority: number
  readonly input: string
  readonly result: string | null
  readonly error: string | null
  readonly attempt: number
  readonly maxAttempts: number
  readonly createdUs: number
  readonly due: number | null
  readonly startedUs: number | null
  readonly finishedUs: number | null
  readonly extra: string | null
  readonly schedule: string | null
  readonly occurs: number | null
  readonly booked: number | null
  readonly flow: string | null
  readonly node: number | null
  readonly total: number | null
  /** The possible start of the wait list in which its lane stands. */
  readonly wakeAtUs: number | null
}

/** The columns of a job with all its details. */
export interface DetailsFields extends RecordFields {
  readonly sinceUs: number
  /** µs. */
  readonly expires: number | null
  readonly worker: number | null
  /** Null: the job has no worker. Empty: an engine's own, since no remote worker may have an empty name. */
  readonly workerName: string | null
  readonly pushedBack: number
  readonly leaseUs: number | null
  readonly leasedUs: number | null
  readonly timeoutUs: number | null
  readonly errors: string | null
  readonly progress: string | null
  readonly deadLetter: number | boolean
}

/** The errors of a job as the text of a JSON array. */
export const ERRORS: string = `'[' || array_to_string(errors, ',') || ']'`

/** Selects the discarded jobs that their policy keeps for a person to look at. */
export const IN_DEAD_LETTER: string = `j.state = ${STATE.discarded} AND j.dead_letter AND j.attempt > 0`

const record = (laneKey: Access['laneKey']) => {
  const wakeAt = (first: string, join: string): string =>
    `(SELECT ${first} FROM sluice.lanes l JOIN sluice.buckets b ON b.id = l.bucket WHERE ${join} = j.lane AND l.state = ${LANE.waiting})`
  const ofLane = wakeAt('b.wake_at', `l.${laneKey}`)
  const ofWorkers = wakeAt('min(b.wake_at)', 'l.base')
  return {
    ...numbers('seq', 'state', 'attempt'),
    ...texts('id', 'task', 'input'),
    ...textsOrNull('result', 'error', 'extra', 'schedule'),
    ...numbersOrNull('due', 'occurs', 'booked', 'node'),
    queue: column<string | number>(),
    nowUs: column<number>('sluice.now_us()'),
    wallUs: column<number>('sluice.wall_us()'),
    priority: column<number>('coalesce(asked, priority)'),
    maxAttempts: column<number>('max_attempts'),
    createdUs: column<number>('created'),
    startedUs: column<number | null>('started'),
    finishedUs: column<number | null>('finished'),
    flow: column<string | null>(`(SELECT f.id FROM sluice.flows f WHERE f.seq = j.flow)`),
    total: column<number | null>(`(SELECT f.total FROM sluice.flows f WHERE f.seq = j.flow)`),
    wakeAtUs: column<number | null>(`CASE WHEN state = ${STATE.available} THEN coalesce(${ofLane}, ${ofWorkers}) END`),
  }
}

/** The columns of a job record, from `jobs j`. */
export function recordColumns(laneKey: Access['laneKey']): Columns<RecordFields> {
  return columns(record(laneKey))
}

/** The columns of a job with all its details, from `jobs j`. */
export function detailsColumns(laneKey: Access['laneKey']): Columns<DetailsFields> {
  return columns({
    ...record(laneKey),
    sinceUs: column<number>('since'),
    expires: column<number | null>(),
    worker: column<number | null>(),
    workerName: column<string | null>(`(SELECT coalesce(w.name, '') FROM sluice.workers w WHERE w.id = j.worker)`),
    pushedBack: column<number>('pushed_back'),
    leaseUs: column<number | null>('lease'),
    leasedUs: column<number | null>('leased'),
    timeoutUs: column<number | null>('timeout'),
    errors: column<string | null>(ERRORS),
    progress: column<string | null>(),
    deadLetter: column<number | boolean>(IN_DEAD_LETTER),
  })
}

/** A stored job as shown at its read. A job that a limit has rescheduled is shown as scheduled. */
export function jobRecord(fields: RecordFields, queueName: Access['queueName']): JobRecord {
  const { nowUs, seq, id, task, priority, input, result, error, attempt, maxAttempts, booked, wakeAtUs } = fields
  const reservedUs = fields.state === STATE.available && booked !== null && booked > nowUs ? booked : null
  const state = reservedUs === null ? stateName(fields.state) : 'scheduled'
  const hasDue = state === 'scheduled' || state === 'retryable' || state === 'active'
  return {
    seq,
    id,
    task,
    queue: queueName(fields.queue),
    state,
    priority,
    input,
    result,
    error: error === null ? null : errorOf(error),
    attempt,
    maxAttempts,
    createdUs: fields.createdUs,
    dueUs: reservedUs !== null ? reservedUs + wallOffset(nowUs, fields.wallUs) : hasDue ? fields.due : null,
    startedUs: fields.startedUs,
    finishedUs: fields.finishedUs,
    extra: fields.extra,
    // Null: the lane stands in no wait list, or a permit has to return.
    throttledUntilUs: wakeAtUs === null || wakeAtUs === NEVER_US ? null : Math.max(wakeAtUs, nowUs),
    ...occurrenceOf(fields.schedule, fields.occurs),
    ...placeIn(fields.flow, fields.node, fields.total),
  }
}

/** A stored job with all its details, as shown at its read. */
export function jobDetails(fields: DetailsFields, queueName: Access['queueName']): JobDetails {
  const { sinceUs, expires, worker, workerName, pushedBack, leaseUs, leasedUs, timeoutUs, errors, progress } = fields
  return {
    ...jobRecord(fields, queueName),
    sinceUs,
    expiresMs: expires === null ? null : expires / 1000,
    worker,
    workerName: workerName === '' ? null : workerName,
    engineRuns: workerName === '',
    pushedBack,
    leaseUs,
    leasedUs,
    timeoutUs,
    errors: errors === null ? [] : failuresOf(errors),
    progress,
    deadLetter: Boolean(fields.deadLetter),
    keptUntilUs: fields.flow === null && isEnd(fields.state) ? fields.due : null,
  }
}
