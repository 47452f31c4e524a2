/** The lines of an exported file: one JSON object each. */
import { z } from 'zod'
import { MAX_DURATION_US } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { inexactNumber } from '../../base/exact-numbers.ts'
import { pathText, repeatedName } from '../../base/json-text.ts'
import { isJobId } from '../../base/ids.ts'
import { checkInstant } from '../../base/instant.ts'
import { toJsonText } from '../../base/json-value.ts'
import { isStorable, isTaskName, LONGEST_NAME } from '../../base/text.ts'
import { checkQueue } from '../../engine/define/call-options.ts'
import { wordsOf } from '../../http/checked.ts'
import { Priority } from '../../http/priority.ts'
import { isTenant, splitName } from '../../http/tenant.ts'
import type { NewJob } from '../../jobs/job.ts'
import { inLaneOrder } from '../../jobs/lane.ts'
import { firstDueUs } from '../../jobs/recurrence.ts'
import type { NewSchedule } from '../../jobs/schedule.ts'
import type { LimitDefinition } from '../../policy/limits/limit.ts'
import { definitionOf, StoredPolicy } from './limit-line.ts'

const Text = z.string().max(4096).refine(isStorable, 'has a character that no store keeps')
const Name = Text.min(1).max(LONGEST_NAME)
const Task = Text.refine(isTaskName, 'is not a task name. Expected lower case words with dots, such as tenant.sync')
const Count = z.int().min(1).max(1_000_000_000)
const Time = z.iso.datetime({ offset: true }).nullable().default(null)
const Ms = z.number().max(MAX_DURATION_US / 1000)
const Uses = z
  .array(z.strictObject({ limit: Name, key: Text.default(''), weight: Count.default(1) }))
  .max(64)
  .default([])
const JobFields = {
  task: Task,
  queue: Text.default('default'),
  priority: Priority.default(0),
  input: z.unknown(),
  uses: Uses,
  maxAttempts: Count.default(3),
  extra: z.record(z.string(), z.unknown()).nullable().default(null),
  fairKey: Text.optional(),
  share: z.int().min(1).max(100).optional(),
  timeoutMs: Ms.min(0).nullable().default(null),
  leaseMs: Ms.positive().nullable().default(null),
  /** Of a schedule: its jobs are for remote workers. */
  deadLetter: z.boolean().optional(),
}

const JobLine = z.strictObject({
  kind: z.literal('job'),
  id: z.string().refine(isJobId, 'is no id of a job'),
  ...JobFields,
  runAt: Time,
  expiresAt: Time,
  uniqueKey: Text.nullable().default(null),
  pending: z.boolean().default(false),
})
const ScheduleLine = z.strictObject({
  kind: z.literal('schedule'),
  name: Name,
  recurrence: z.looseObject({ kind: z.enum(['cron', 'every']) }),
  immediately: z.boolean().default(false),
  until: Time,
  maxRuns: Count.nullable().default(null),
  overlap: z.enum(['skip', 'allow']),
  onMissed: z.enum(['skip', 'catchUp']),
  paused: z.boolean().default(false),
  job: z.strictObject(JobFields),
})
const LimitLine = z.strictObject({
  kind: z.literal('limit'),
  name: Name,
  version: z.int().min(0),
  policy: StoredPolicy,
})
const Line = z.discriminatedUnion('kind', [LimitLine, ScheduleLine, JobLine])

/** A line as it is written. */
export interface WrittenLine {
  readonly kind: 'limit' | 'schedule' | 'job'
  readonly [field: string]: unknown
}

/** A line as a store takes it. */
export type ReadLine =
  | { readonly kind: 'limit'; readonly limit: LimitDefinition }
  | { readonly kind: 'schedule'; readonly schedule: NewSchedule; readonly paused: boolean }
  | { readonly kind: 'job'; readonly job: NewJob }

/** Reads one line. @throws {SluiceError} `cli.usage`, which names the line and what is wrong with it */
export function readLine(text: string, number: number): ReadLine {
  try {
    const json: unknown = JSON.parse(text)
    const repeated = repeatedName(text, json)
    if (repeated) throw bad(number, `${pathText(repeated)} is there twice`)
    const parsed = Line.safeParse(json)
    const inexact = inexactNumber(text)
    if (inexact) throw bad(number, `${inexact.path}: ${inexact.message}`)
    if (parsed.success) return converted(parsed.data)
    throw bad(number, parsed.error.issues.map(wordsOf).join('; '))
  } catch (error) {
    if (error instanceof SluiceError && error.code === 'cli.usage') throw error
    if (error instanceof SyntaxError) throw bad(number, 'it is not JSON')
    throw bad(number, error instanceof Error ? error.message : String(error))
  }
}

/** An error about one line. */
export function bad(number: number, why: string): SluiceError {
  return new SluiceError('cli.usage', `Line ${number} is invalid: ${why.replace(/\.$/, '')}. Nothing was imported.`)
}

function converted(line: z.output<typeof Line>): ReadLine {
  if (line.kind === 'job') return { kind: 'job', job: jobOf(line) }
  if (line.kind === 'limit') return { kind: 'limit', limit: definitionOf(line.name, line.version, line.policy) }
  const { kind: _, job, until, recurrence, paused, ...rest } = line
  const known = recurrence as unknown as NewSchedule['recurrence']
  // It throws for a cron or a distance that no engine can compute.
  firstDueUs(known, 0, 0)
  return {
    kind: 'schedule',
    paused,
    schedule: {
      ...rest,
      recurrence: known,
      untilMs: msOf(until, 'until'),
      job: { ...plainOf(job), ...(job.deadLetter !== undefined && { terms: { ...termsOf(job), givenId: false } }) },
    },
  }
}

/** A job as a store takes it. */
function jobOf({ id, uniqueKey, runAt, expiresAt, pending, ...job }: z.output<typeof JobLine>): NewJob {
  if (pending && runAt !== null) throw new RangeError('pending and runAt exclude each other. Omit one of them')
  if (uniqueKey !== null && !uniqueKey.startsWith(`${job.task}:`))
    throw new RangeError(`uniqueKey does not begin with ${job.task}:`)
  return {
    id,
    ...plainOf(job),
    runAtMs: msOf(runAt, 'runAt'),
    expiresAtMs: msOf(expiresAt, 'expiresAt'),
    unique: uniqueKey === null ? null : { key: uniqueKey, onConflict: 'reject', withinUs: null, states: null },
    terms: { ...termsOf(job), pending },
  }
}

/** A server's queues have the names of their tenants before their own. */
function checkStoredQueue(queue: string): string {
  const { tenant, name } = splitName(queue)
  checkQueue(isTenant(tenant) ? name : queue)
  return queue
}

type Plain = z.output<z.ZodObject<typeof JobFields>>

function plainOf({
  task,
  queue,
  priority,
  input,
  uses,
  maxAttempts,
  extra,
  fairKey,
  share,
}: Plain): Omit<NewSchedule['job'], 'terms'> {
  const names = uses.map(({ limit, key }) => `${limit}\0${key}`)
  if (new Set(names).size < names.length) throw new RangeError('uses names one budget twice')
  return {
    task,
    queue: checkStoredQueue(queue),
    priority,
    input: toJsonText(input ?? null, 'input'),
    uses: inLaneOrder([...uses]),
    maxAttempts,
    extra: extra === null ? null : toJsonText(extra, 'extra'),
    ...(fairKey !== undefined && { fairKey }),
    ...(share !== undefined && { share }),
  }
}

function termsOf({
  deadLetter = false,
  leaseMs,
  timeoutMs,
}: Pick<Plain, 'deadLetter' | 'leaseMs' | 'timeoutMs'>): NonNullable<NewJob['terms']> {
  return { givenId: true, pending: false, leaseUs: usOf(leaseMs), timeoutUs: usOf(timeoutMs), deadLetter }
}

function usOf(ms: number | null): number | null {
  return ms === null ? null : Math.round(ms * 1000)
}

function msOf(text: string | null, what: string): number | null {
  return text === null ? null : checkInstant(Date.parse(text), what)
}
