import { SluiceError } from '../../base/errors.ts'
import type { JobTerms, NewJob } from '../../jobs/job.ts'
import { levelOf, NO_AGEING, stepsAt, stepsOf } from '../../policy/admission/ageing.ts'
import type { Enqueued } from '../contract/store.ts'
import { cancelWaiting } from './cancel-waiting.ts'
import { type Context, queueId } from './context.ts'
import { arrive, depart, forgetSieve, laneOf } from './lanes.ts'
import { STATE } from '../shared/state.ts'
import type { Reaching } from '../shared/stored-bucket.ts'
import type { Instant } from '../../jobs/series.ts'
import { findHolder, type Holder } from './unique.ts'

const INSERT = `INSERT INTO jobs (id, task, queue, state, lane, priority, max_attempts, created, since, due, expires, weights, unique_key, input, extra, schedule, occurs,
    asked, flow, node, waits, plan, lease, timeout, dead_letter)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

/** The place of a new job among those of its flow. */
export interface Membership {
  readonly flow: number
  readonly node: number
  /** The number of jobs that it waits for. */
  readonly waits: number
  /** Stored until those jobs complete; null: the job starts now. */
  readonly plan: string | null
}

/** The initial place of a job. */
export interface Place {
  readonly state: number
  readonly lane: number
  /** Its level, by which lanes order it. */
  readonly level: number
  readonly due: number | null
}

/** The lane number of a pending job. */
const NO_LANE = 0

/** The error for a caller's transaction, which this store does not support. */
export function transactionRefused(): SluiceError {
  return new SluiceError(
    'option.invalid',
    "enqueue got tx, but a SQLite store cannot join a caller's transaction. Use a postgres:// store, or omit tx.",
  )
}

/** Stores jobs. A lane is updated in the same transaction, and only if the arrival can change its next step. */
export function enqueue(
  context: Context,
  jobs: readonly NewJob[],
  instant: Instant = context.clock.read(),
): Enqueued[] {
  context.policies.refresh()
  return jobs.map((job) => (job.unique ? enqueueUnique(context, job, instant) : insert(context, job, instant)))
}

/** The fields that decide a job's place. */
export type Placed = Omit<NewJob, 'id' | 'task' | 'input' | 'extra' | 'unique' | 'delayUs'>

/**
 * The initial place of a job that waits for no other: its lane, or scheduled. @param delayUs an extra delay from now
 */
export function placeOf(context: Context, job: Placed, { nowUs, wallUs }: Instant, delayUs = 0): Place {
  const lane = laneOf(context, queueId(context, job.queue), job, nowUs)
  const pending = job.terms?.pending === true
  const runAtUs = Math.max(
    job.runAtMs === null || pending ? 0 : Math.round(job.runAtMs * 1000),
    delayUs > 0 ? wallUs + delayUs : 0,
  )
  const laterUs = Math.max(0, runAtUs - wallUs)
  // A job ages from its possible start on.
  const level = levelOf(
    job.priority,
    stepsAt(context.policies.current.ageing, nowUs + laterUs),
    reachedBy(context, job),
  )
  if (pending) return { state: STATE.pending, lane, level, due: null }
  if (laterUs > 0) return { state: STATE.scheduled, lane, level, due: runAtUs }
  const due = latestStartUs(context, job.uses, job.expiresAtMs, { nowUs, wallUs })
  return { state: STATE.available, lane, level, due }
}

/** Stores a job at its place; a job of a flow with a plan is pending. */
export function insert(
  context: Context,
  job: NewJob,
  instant: Instant,
  member: Membership | null = null,
  delayUs: number = job.delayUs ?? 0,
): Enqueued {
  const { nowUs } = instant
  const { state, lane, level, due } =
    member === null || member.plan === null
      ? placeOf(context, job, instant, delayUs)
      : { state: STATE.pending, lane: NO_LANE, level: job.priority, due: null }
  const { lastInsertRowid } = context.db
    .prepare(INSERT)
    .run(
      job.id,
      job.task,
      queueId(context, job.queue),
      state,
      lane,
      level,
      job.maxAttempts,
      nowUs,
      nowUs,
      due,
      expiresUs(job),
      weightsText(job.uses),
      job.unique?.key ?? null,
      job.input,
      job.extra,
      job.occurrence?.schedule ?? null,
      job.occurrence ? Math.round(job.occurrence.dueMs * 1000) : null,
      level === job.priority ? null : job.priority,
      member?.flow ?? null,
      member?.node ?? null,
      member?.waits ?? null,
      member?.plan ?? null,
      job.terms?.leaseUs ?? null,
      job.terms?.timeoutUs ?? null,
      job.terms?.deadLetter ? 1 : 0,
    )
  if (state === STATE.available) arrive(context, lane, level, Number(lastInsertRowid), nowUs, due !== null)
  return { kind: 'created', id: job.id }
}

function enqueueUnique(context: Context, job: NewJob, instant: Instant): Enqueued {
  const rule = job.unique
  const holder = rule && findHolder(context, rule, instant.nowUs)
  if (!rule || !holder) return insert(context, job, instant)
  if (rule.onConflict === 'reject') return { kind: 'conflict', id: holder.id }
  if (rule.onConflict === 'ignore') return { kind: 'duplicate', id: holder.id }
  if (!holder.changeable) return insert(context, job, instant)
  if (rule.onConflict === 'update') return update(context, job, holder, instant)
  cancelWaiting(context, holder, instant.nowUs)
  return insert(context, job, instant)
}

/**
 * Updates a duplicate: the earlier job keeps its id and its place, and runs once with the latest input. Changed keys
 * move it to the new lane.
 */
function update(context: Context, job: NewJob, holder: Holder, instant: Instant): Enqueued {
  const { nowUs } = instant
  const queue = queueId(context, job.queue)
  const lane = laneOf(context, queue, job, nowUs)
  const level = levelOf(job.priority, stepsOf(holder.level, holder.priority), reachedBy(context, job))
  const waits = holder.state === STATE.available
  const due = waits ? latestStartUs(context, job.uses, job.expiresAtMs, instant) : holder.due
  context.db.run(
    'UPDATE jobs SET queue = ?, lane = ?, priority = ?, asked = ?, max_attempts = ?, weights = ?, input = ?, extra = ?, due = ?, expires = ?, booked = NULL WHERE seq = ?',
    queue,
    lane,
    level,
    level === job.priority ? null : job.priority,
    job.maxAttempts,
    weightsText(job.uses),
    job.input,
    job.extra,
    due,
    expiresUs(job),
    holder.seq,
  )
  if (job.terms) writeTerms(context, holder.seq, job.terms)
  if (waits) {
    forgetSieve(context, holder.lane)
    depart(context, holder.lane, holder.seq, nowUs)
    arrive(context, lane, level, holder.seq, nowUs, due !== null)
  }
  return { kind: 'updated', id: holder.id }
}

/**
 * The highest headroom threshold among a job's limits that its priority reaches; null: none, or priorities have never
 * aged here.
 */
export function reachedBy(context: Context, { uses, priority }: Reaching): number | null {
  let reached: number | null = null
  if (context.policies.current.ageing === NO_AGEING) return reached
  for (const { limit, key } of uses) {
    const threshold = context.policies.current.policy(limit, key)?.headroom?.priority
    if (threshold !== undefined && threshold <= priority) reached = Math.max(reached ?? threshold, threshold)
  }
  return reached
}

/**
 * The latest start of an available job: the end of its `maxWait` or its expiry, whichever is first, on the store's
 * clock.
 */
export function latestStartUs(
  context: Context,
  uses: readonly { readonly limit: string; readonly key: string }[],
  expiresAtMs: number | null,
  { nowUs, wallUs }: Instant,
): number | null {
  let latest = expiresAtMs === null ? Infinity : nowUs + Math.round(expiresAtMs * 1000) - wallUs
  for (const { limit, key } of uses) {
    const maxWaitUs = context.policies.current.policy(limit, key)?.maxWaitUs ?? null
    if (maxWaitUs !== null) latest = Math.min(latest, nowUs + maxWaitUs)
  }
  return latest === Infinity ? null : latest
}

/** Wall clock. */
function expiresUs({ expiresAtMs }: NewJob): number | null {
  return expiresAtMs === null ? null : Math.round(expiresAtMs * 1000)
}

function weightsText(uses: NewJob['uses']): string | null {
  return uses.some((use) => use.weight !== 1) ? JSON.stringify(uses.map((use) => use.weight)) : null
}

function writeTerms(context: Context, seq: number, { leaseUs, timeoutUs, deadLetter }: JobTerms): void {
  context.db.run(
    'UPDATE jobs SET lease = ?, timeout = ?, dead_letter = ? WHERE seq = ?',
    leaseUs,
    timeoutUs,
    deadLetter ? 1 : 0,
    seq,
  )
}
