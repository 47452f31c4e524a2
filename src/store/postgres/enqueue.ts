import type { Statements } from '../../database/postgres.ts'
import type { NewJob } from '../../jobs/job.ts'
import type { UniqueRule } from '../../jobs/unique-key.ts'
import { laneKey } from '../../jobs/lane.ts'
import type { Enqueued } from '../store.ts'
import type { Context } from './context.ts'
import { usesText, weightsText } from './lane-key.ts'
import { STATE } from './state.ts'

/** A job as a row of columns, in the order of `insert_jobs`. */
type Columns = readonly [
  id: string,
  task: string,
  queue: string,
  lane: string,
  priority: number,
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
]

const LIVE = [STATE.scheduled, STATE.available, STATE.active, STATE.retryable, STATE.pending]
const INSERT = `SELECT sluice.insert_jobs($1::uuid[], $2::text[], $3::text[], $4::text[], $5::int[], $6::int[], $7::bigint[], $8::bigint[], $9::text[], $10::text[],
  $11::text[], $12::text[], $13::text[], $14::text[], $15::bigint[])`

/** Stores jobs in one statement, all or none. It only inserts: no lane, no bucket and, without unique keys, no row of anybody is locked. */
export async function enqueue(context: Context, db: Statements, jobs: readonly NewJob[]): Promise<Enqueued[]> {
  if (jobs.length === 0) return []
  const rows = jobs.map(columnsOf)
  if (jobs.every((job) => job.unique === null)) {
    const columns = (rows[0] as Columns).map((_, i) => rows.map((row) => row[i] ?? null))
    await db.all(INSERT, ...columns)
    return jobs.map(({ id }) => ({ kind: 'created', id }))
  }
  const asked = jobs.map((job, i) => [...(rows[i] as Columns), ...ruleOf(job.unique)])
  const answers = await db.all<[Enqueued['kind'], string]>(
    'SELECT kind, id FROM sluice.enqueue_unique($1::json, $2::bigint)',
    JSON.stringify(asked),
    context.retention.cancelledUs,
  )
  return answers.map(([kind, id]) => ({ kind, id }))
}

function columnsOf(job: NewJob): Columns {
  return [
    job.id,
    job.task,
    job.queue,
    laneKey(job.queue, job.uses),
    job.priority,
    job.maxAttempts,
    job.runAtMs === null ? null : Math.round(job.runAtMs * 1000),
    job.expiresAtMs === null ? null : Math.round(job.expiresAtMs * 1000),
    usesText(job.uses),
    weightsText(job.uses),
    job.unique?.key ?? null,
    job.input,
    job.extra,
    job.occurrence?.schedule ?? null,
    job.occurrence ? Math.round(job.occurrence.dueMs * 1000) : null,
  ]
}

/** The same after an earlier try whose answer was lost: what that has stored is known by its id. */
export async function enqueueAgain(context: Context, db: Statements, jobs: readonly NewJob[]): Promise<Enqueued[]> {
  const rows = await db.all<[string]>(
    'SELECT id FROM sluice.jobs WHERE id = ANY ($1::uuid[])',
    jobs.map(({ id }) => id),
  )
  const stored = new Set(rows.map(([id]) => id))
  const answers = await enqueue(
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
