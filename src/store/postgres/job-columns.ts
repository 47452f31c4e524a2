import type { PgValue } from '../../database/statements.ts'
import type { JobTerms, NewJob } from '../../jobs/job.ts'
import type { UniqueRule } from '../../jobs/unique-key.ts'
import { laneKey } from '../../jobs/lane.ts'
import { levelOf, NO_AGEING, stepsAt } from '../../policy/admission/ageing.ts'
import type { Context } from './context.ts'
import { usesText, weightsText } from './lane-key.ts'
import { STATE } from '../shared/state.ts'
import type { Reaching } from '../shared/stored-bucket.ts'
import { inOrder, NEW_JOB, TERMS } from './sql/fields.ts'

/** The parameters of `insert_jobs` for each job, column by column, and their types. */
const COLUMNS = {
  id: 'uuid',
  task: 'text',
  queue: 'text',
  lane: 'text',
  level: 'bigint',
  max_attempts: 'int',
  run_at: 'bigint',
  expires: 'bigint',
  uses: 'text',
  weights: 'text',
  unique_key: 'text',
  input: 'text',
  extra: 'text',
  schedule: 'text',
  occurs: 'bigint',
  asked: 'int',
  fair: 'text',
  share: 'int',
  terms: 'json',
} as const

/** The types of the columns of `insert_jobs`. */
export const JOB_TYPES: readonly string[] = Object.values(COLUMNS)
/** The number of parameters of `storeJobs`. */
export const STORED: number = Object.keys(COLUMNS).length + 1

type Row = Readonly<Record<keyof typeof COLUMNS, string | number | null>>

const LIVE = [STATE.scheduled, STATE.available, STATE.active, STATE.retryable, STATE.pending]
/** Stores jobs without unique keys; its parameters are those of `columnsOf`. */
export const INSERT_JOBS: string = insertJobs('')

/** The same with the pace of ageing checked; its parameters are those of `valuesOf`. @param terms as `Carrying.insert` */
export function storeJobs(terms = ''): string {
  return `sluice.check_ageing($${STORED}), ${insertJobs(terms)}`
}

function insertJobs(terms: string): string {
  return `sluice.insert_jobs(${typedList(JOB_TYPES)}${terms})`
}

/** Parameters that are lists, one for each type. */
export function typedList(types: readonly string[]): string {
  return types.map((type, i) => `$${i + 1}::${type}[]`).join(', ')
}

/** Jobs as the parameters of `storeJobs`. */
export function valuesOf(context: Context, jobs: readonly NewJob[]): PgValue[] {
  return [...columnsOf(context, jobs), ageingText(context)]
}

/** Jobs as the columns of `insert_jobs`; a column without values is empty, and `unnest` fills it up. */
export function columnsOf(context: Context, jobs: readonly NewJob[]): PgValue[] {
  const nowUs = context.clock.nowUs()
  const rows = jobs.map((job) => rowOf(context, job, nowUs))
  const names = Object.keys(COLUMNS) as (keyof Row)[]
  return names.map((name) => (rows.some((row) => row[name] !== null) ? rows.map((row) => row[name]) : []))
}

/** Jobs as `enqueue_unique` takes them, one by one; each has its given priority even if that equals its level. */
export function jobsText(context: Context, jobs: readonly NewJob[]): string {
  const nowUs = context.clock.nowUs()
  const rows = jobs.map((job) => {
    const row = rowOf(context, job, nowUs)
    return inOrder(NEW_JOB, {
      ...row,
      priority: job.priority,
      reached: reachedBy(context, job),
      ...ruleOf(job.unique),
      terms: job.terms ? termsOf(job.terms) : null,
    })
  })
  return JSON.stringify(rows)
}

function rowOf(context: Context, job: NewJob, nowUs: number): Row {
  // A job ages from its possible start on.
  const runAtUs = job.runAtMs === null ? null : Math.max(0, Math.round(job.runAtMs * 1000))
  const startsUs = job.terms?.pending ? nowUs : Math.max(nowUs, runAtUs ?? nowUs + (job.delayUs ?? 0))
  const level = levelOfJob(context, job, startsUs)
  return {
    id: job.id,
    task: job.task,
    queue: job.queue,
    lane: laneKey(job.queue, job.uses, job.fairKey ?? null),
    level,
    max_attempts: job.maxAttempts,
    run_at: runAtUs ?? (job.delayUs ? -job.delayUs : null),
    expires: job.expiresAtMs === null ? null : Math.round(job.expiresAtMs * 1000),
    uses: usesText(job),
    weights: weightsText(job.uses),
    unique_key: job.unique?.key ?? null,
    input: job.input,
    extra: job.extra,
    schedule: job.occurrence?.schedule ?? null,
    occurs: job.occurrence ? Math.round(job.occurrence.dueMs * 1000) : null,
    asked: level === job.priority ? null : job.priority,
    fair: job.fairKey ?? null,
    share: job.share ?? 1,
    terms: job.terms ? termsText(job.terms) : null,
  }
}

/** The level of a job that ages from an instant on. */
export function levelOfJob(context: Context, job: Pick<NewJob, 'uses' | 'priority'>, sinceUs: number): number {
  return levelOf(job.priority, stepsAt(context.limits.ageing, sinceUs), reachedBy(context, job))
}

/** A job's own terms in the form that `insert_jobs` takes. */
export function termsText(terms: JobTerms): string {
  return JSON.stringify(termsOf(terms))
}

function termsOf({ leaseUs, timeoutUs, deadLetter, pending }: JobTerms): unknown[] {
  return inOrder(TERMS, { lease: leaseUs, timeout: timeoutUs, dead_letter: deadLetter, pending })
}

/**
 * The highest headroom threshold among a job's limits that its priority reaches; null: none, or priorities have never
 * aged here.
 */
export function reachedBy({ limits }: Context, { uses, priority }: Reaching): number | null {
  let reached: number | null = null
  if (limits.ageing === NO_AGEING) return reached
  for (const { limit, key } of uses) {
    const threshold = limits.policy(limit, key)?.headroom?.priority
    if (threshold !== undefined && threshold <= priority) reached = Math.max(reached ?? threshold, threshold)
  }
  return reached
}

/** The pace that levels were computed with, in the form that `check_ageing` compares. */
export function ageingText({ limits }: Context): string | null {
  return limits.ageing === NO_AGEING ? null : JSON.stringify(limits.ageing)
}

/** The rule for duplicates of a job: the conflict's outcome, the states that count, and the period. */
function ruleOf(rule: UniqueRule | null): Readonly<Record<'conflict' | 'states' | 'within', unknown>> {
  if (!rule) return { conflict: null, states: [], within: null }
  const states = rule.states
    ? rule.states.map((state) => STATE[state])
    : rule.withinUs === null
      ? LIVE
      : [...LIVE, STATE.completed]
  return { conflict: rule.onConflict, states, within: rule.withinUs }
}
