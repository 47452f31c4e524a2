import type { PgValue, Statements } from '../../database/postgres.ts'
import { codeOf } from '../../database/postgres-error.ts'
import type { JobTerms, NewJob } from '../../jobs/job.ts'
import type { UniqueRule } from '../../jobs/unique-key.ts'
import { laneKey } from '../../jobs/lane.ts'
import { levelOf, NO_AGEING, stepsAt } from '../../policy/admission/ageing.ts'
import type { Enqueued } from '../contract/store.ts'
import type { Context } from './context.ts'
import { currentLimits } from './limit-timelines.ts'
import { usesText, weightsText } from './lane-key.ts'
import { STATE } from '../shared/state.ts'

/** A job as a row of columns, in the order of `insert_jobs`. */
type Columns = readonly [
  id: string,
  task: string,
  queue: string,
  lane: string,
  level: number,
  maxAttempts: number,
  runAt: number | null,
  expires: number | null,
  uses: string | null,
  weights: string | null,
  unique: string | null,
  input: string,
  extra: string | null,
  schedule: string | null,
  occurs: number | null,
  asked: number | null,
  fair: string | null,
  share: number | null,
  terms: string | null,
]

const LIVE = [STATE.scheduled, STATE.available, STATE.active, STATE.retryable, STATE.pending]
/** Stores jobs without unique keys; takes what `columnsOf` answers. */
export const INSERT_JOBS = `sluice.insert_jobs($1::uuid[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::int[], $7::bigint[], $8::bigint[], $9::text[], $10::text[],
  $11::text[], $12::text[], $13::text[], $14::text[], $15::bigint[], $16::int[], $17::text[], $18::int[], $19::json[])`

/** Stores jobs in one statement, all or none. It only inserts: no lane, no bucket and, without unique keys, no row of anybody is locked. */
export async function enqueue(context: Context, db: Statements, jobs: readonly NewJob[]): Promise<Enqueued[]> {
  if (jobs.length === 0) return []
  for (const { queue } of jobs) context.queues.met(queue)
  if (jobs.every((job) => job.unique === null)) {
    await db.all(`SELECT sluice.check_ageing($20), ${INSERT_JOBS}`, ...columnsOf(context, jobs), ageingText(context))
    return jobs.map(({ id }) => ({ kind: 'created', id }))
  }
  const answers = await db.all<[Enqueued['kind'], string]>(
    'SELECT kind, id FROM sluice.enqueue_unique($1::json, $2::bigint), sluice.check_ageing($3)',
    jobsText(context, jobs),
    context.retention.cancelledUs,
    ageingText(context),
  )
  return answers.map(([kind, id]) => ({ kind, id }))
}

/** Jobs as `insert_jobs` takes them, column by column; one in which nothing stands is empty, and `unnest` fills it up. */
export function columnsOf(context: Context, jobs: readonly NewJob[]): PgValue[] {
  const nowUs = context.clock.nowUs()
  const rows = jobs.map((job) => rowOf(context, job, nowUs))
  return (rows[0] ?? []).map((_, i) => (rows.some((row) => row[i] !== null) ? rows.map((row) => row[i] ?? null) : []))
}

/** Jobs as `enqueue_unique` takes them, one by one; each says what it asked for even where that is what it is ordered by. */
export function jobsText(context: Context, jobs: readonly NewJob[]): string {
  const nowUs = context.clock.nowUs()
  const rows = jobs.map((job) => {
    const row = rowOf(context, job, nowUs)
    const place = [...row.slice(0, 15), job.priority, ...row.slice(16, 18)]
    return [...place, reachedBy(context, job), ...ruleOf(job.unique), job.terms ? termsOf(job.terms) : null]
  })
  return JSON.stringify(rows)
}

function rowOf(context: Context, job: NewJob, nowUs: number): Columns {
  // A job ages from when it may start.
  const runAtUs = job.runAtMs === null ? null : Math.max(0, Math.round(job.runAtMs * 1000))
  const startsUs = job.terms?.pending ? nowUs : Math.max(nowUs, runAtUs ?? nowUs + (job.delayUs ?? 0))
  const level = levelOfJob(context, job, startsUs)
  return [
    job.id,
    job.task,
    job.queue,
    laneKey(job.queue, job.uses, job.fairKey ?? null),
    level,
    job.maxAttempts,
    runAtUs ?? (job.delayUs ? -job.delayUs : null),
    job.expiresAtMs === null ? null : Math.round(job.expiresAtMs * 1000),
    usesText(job),
    weightsText(job.uses),
    job.unique?.key ?? null,
    job.input,
    job.extra,
    job.occurrence?.schedule ?? null,
    job.occurrence ? Math.round(job.occurrence.dueMs * 1000) : null,
    level === job.priority ? null : job.priority,
    job.fairKey ?? null,
    job.share ?? 1,
    job.terms ? termsText(job.terms) : null,
  ]
}

/** What a job is ordered by that ages from an instant on. */
export function levelOfJob(context: Context, job: Pick<NewJob, 'uses' | 'priority'>, sinceUs: number): number {
  return levelOf(job.priority, stepsAt(context.limits.ageing, sinceUs), reachedBy(context, job))
}

/** A job's own terms as `insert_jobs` takes them. */
export function termsText(terms: JobTerms): string {
  return JSON.stringify(termsOf(terms))
}

function termsOf({ leaseUs, timeoutUs, deadLetter, pending }: JobTerms): unknown[] {
  return [leaseUs, timeoutUs, deadLetter, pending]
}

/** The highest headroom threshold among a job's limits that its priority reaches; null: none, or nothing has ever aged here. */
export function reachedBy({ limits }: Context, { uses, priority }: Pick<NewJob, 'uses' | 'priority'>): number | null {
  let reached: number | null = null
  if (limits.ageing === NO_AGEING) return reached
  for (const { limit, key } of uses) {
    const threshold = limits.policy(limit, key)?.headroom?.priority
    if (threshold !== undefined && threshold <= priority) reached = Math.max(reached ?? threshold, threshold)
  }
  return reached
}

/** The same on a connection that may be used again after an error. */
export function enqueueAlone(context: Context, db: Statements, jobs: readonly NewJob[]): Promise<Enqueued[]> {
  return alone(context, db, () => enqueue(context, db, jobs))
}

/** Should priorities age at another pace by now, work that places jobs is done anew; on a connection that may be used again after an error. */
export async function alone<T>(context: Context, db: Statements, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (codeOf(error) !== 'SL003') throw error
    await currentLimits(context, db)
    return work()
  }
}

/** The pace that levels were reckoned by, as `check_ageing` compares it. */
export function ageingText({ limits }: Context): string | null {
  return limits.ageing === NO_AGEING ? null : JSON.stringify(limits.ageing)
}

/** The same after an earlier try whose answer was lost: what that has stored is known by its id. */
export async function enqueueAgain(context: Context, db: Statements, jobs: readonly NewJob[]): Promise<Enqueued[]> {
  const rows = await db.all<[string]>(
    'SELECT id FROM sluice.jobs WHERE id = ANY ($1::uuid[])',
    jobs.map(({ id }) => id),
  )
  const stored = new Set(rows.map(([id]) => id))
  const answers = await enqueueAlone(
    context,
    db,
    jobs.filter(({ id }) => !stored.has(id)),
  )
  let at = 0
  return jobs.map(({ id }) => (stored.has(id) ? { kind: 'created', id } : (answers[at++] as Enqueued)))
}

/** What makes another job the same call: what happens then, the states that count, and for how long. */
function ruleOf(rule: UniqueRule | null): [string | null, number[], number | null] {
  if (!rule) return [null, [], null]
  const states = rule.states
    ? rule.states.map((state) => STATE[state])
    : rule.withinUs === null
      ? LIVE
      : [...LIVE, STATE.completed]
  return [rule.onConflict, states, rule.withinUs]
}
