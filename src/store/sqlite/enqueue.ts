import type { NewJob } from '../../jobs/job.ts'
import type { Enqueued } from '../store.ts'
import { cancelWaiting } from './cancel.ts'
import { type Context, queueId } from './context.ts'
import { arrive, depart, forgetSieve, laneOf } from './lanes.ts'
import { STATE } from './state.ts'
import type { Instant } from './store-clock.ts'
import { findHolder, type Holder } from './unique.ts'

const INSERT = `INSERT INTO jobs (id, task, queue, state, lane, priority, max_attempts, created, since, due, expires, weights, unique_key, input, extra, schedule, occurs)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

/** Stores jobs; a lane learns of its arrival in the same transaction, and only if that can change what it does next. */
export function enqueue(
  context: Context,
  jobs: readonly NewJob[],
  instant: Instant = context.clock.read(),
): Enqueued[] {
  context.policies.refresh()
  return jobs.map((job) => (job.unique ? enqueueUnique(context, job, instant) : insert(context, job, instant)))
}

function insert(context: Context, job: NewJob, { nowUs, wallUs }: Instant): Enqueued {
  const queue = queueId(context, job.queue)
  const lane = laneOf(context, queue, job.queue, job.uses, nowUs)
  const scheduledUs = job.runAtMs !== null && job.runAtMs * 1000 > wallUs ? Math.round(job.runAtMs * 1000) : null
  const state = scheduledUs === null ? STATE.available : STATE.scheduled
  const due = scheduledUs ?? latestStartUs(context, job.uses, job.expiresAtMs, { nowUs, wallUs })
  const { lastInsertRowid } = context.db
    .prepare(INSERT)
    .run(
      job.id,
      job.task,
      queue,
      state,
      lane,
      job.priority,
      job.maxAttempts,
      nowUs,
      nowUs,
      due,
      job.expiresAtMs === null ? null : Math.round(job.expiresAtMs * 1000),
      weightsText(job.uses),
      job.unique?.key ?? null,
      job.input,
      job.extra,
      job.occurrence?.schedule ?? null,
      job.occurrence ? Math.round(job.occurrence.dueMs * 1000) : null,
    )
  if (scheduledUs === null) arrive(context, lane, job.priority, Number(lastInsertRowid), nowUs, due !== null)
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

/** The earlier job keeps its id and its place, and runs once with the latest input; changed keys move it to the new lane. */
function update(context: Context, job: NewJob, holder: Holder, instant: Instant): Enqueued {
  const { nowUs } = instant
  const queue = queueId(context, job.queue)
  const lane = laneOf(context, queue, job.queue, job.uses, nowUs)
  const waits = holder.state === STATE.available
  const due = waits ? latestStartUs(context, job.uses, job.expiresAtMs, instant) : holder.due
  context.db.run(
    'UPDATE jobs SET queue = ?, lane = ?, priority = ?, max_attempts = ?, weights = ?, input = ?, extra = ?, due = ?, booked = NULL WHERE seq = ?',
    queue,
    lane,
    job.priority,
    job.maxAttempts,
    weightsText(job.uses),
    job.input,
    job.extra,
    due,
    holder.seq,
  )
  if (waits) {
    forgetSieve(context, holder.lane)
    depart(context, holder.lane, holder.seq, nowUs)
    arrive(context, lane, job.priority, holder.seq, nowUs, due !== null)
  }
  return { kind: 'updated', id: holder.id }
}

/** When an available job is given up: the end of its `maxWait` or its expiry, whichever is first; in the store's clock. */
export function latestStartUs(
  context: Context,
  uses: readonly { readonly limit: string; readonly key: string }[],
  expiresAtMs: number | null,
  { nowUs, wallUs }: Instant,
): number | null {
  let latest = expiresAtMs === null ? Infinity : nowUs + Math.round(expiresAtMs * 1000) - wallUs
  for (const { limit, key } of uses) {
    const maxWaitUs = context.policies.policy(limit, key)?.maxWaitUs ?? null
    if (maxWaitUs !== null) latest = Math.min(latest, nowUs + maxWaitUs)
  }
  return latest === Infinity ? null : latest
}

function weightsText(uses: NewJob['uses']): string | null {
  return uses.some((use) => use.weight !== 1) ? JSON.stringify(uses.map((use) => use.weight)) : null
}
