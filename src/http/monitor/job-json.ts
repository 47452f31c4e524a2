import { z } from 'zod'
import type { JobExplanation } from '../../engine/api/job-explanation.ts'
import type { JobView } from '../../engine/api/job-view.ts'
import { STATES } from '../../jobs/job-state.ts'
import type { Call } from '../operation.ts'
import { ownWords } from '../ojs/explain-job.ts'
import { toldExplanation } from '../told-overrides.ts'
import { OverrideJson, overrideJson } from './limit-json.ts'
import { Time, timeOf, TimeOrNull } from './monitor-operation.ts'
import { seenBy } from './seen.ts'

type AnyCall = Call<unknown, unknown, unknown>

const PREVIEW_CHARACTERS = 200

/** A job in a list. */
export const JobRow: z.ZodType = z.object({
  id: z.string(),
  task: z.string(),
  queue: z.string(),
  state: z.enum(STATES as [(typeof STATES)[number]]),
  priority: z.number(),
  attempt: z.number(),
  maxAttempts: z.number(),
  createdAt: Time,
  startedAt: TimeOrNull,
  finishedAt: TimeOrNull,
  throttledUntil: TimeOrNull,
  tags: z.array(z.string()),
  meta: z.record(z.string(), z.unknown()),
  preview: z.string().meta({ description: 'The beginning of the payload.' }),
  error: z.looseObject({ code: z.string(), message: z.string() }).nullable(),
  flow: z.looseObject({ id: z.string() }).optional(),
  occurrence: z.object({ schedule: z.string(), dueAt: Time }).optional(),
})
JobRow.register(z.globalRegistry, { id: 'MonitorJob' })

const BucketName = z.object({ limit: z.string(), key: z.string().nullable() })

/** Why a job waits, in an answer. */
export const ExplanationJson: z.ZodType = z.object({
  words: z.string(),
  unresolved: z.boolean(),
  limits: z.array(BucketName.extend({ weight: z.number() })),
  fairKey: z.string().nullable(),
  share: z.number(),
  waitsOn: BucketName.nullable(),
  headroom: z.object({ units: z.number(), priority: z.number() }).nullable(),
  guardMs: z.number().optional(),
  eachWorker: z.array(z.object({ worker: z.number(), waitsOn: BucketName.nullable(), until: TimeOrNull })).optional(),
  position: z.number().nullable(),
  linePosition: z.number().nullable(),
  since: TimeOrNull,
  until: TimeOrNull,
  expectedStart: TimeOrNull,
  exact: z.boolean(),
  givenUpAt: TimeOrNull,
  served: z.boolean(),
  known: z.boolean(),
  overrides: z.array(OverrideJson),
})
ExplanationJson.register(z.globalRegistry, { id: 'MonitorExplanation' })

/** The parts of an explanation that other answers read. */
export interface Explained {
  readonly words: string
  readonly limits: readonly { readonly limit: string; readonly key: string | null; readonly weight: number }[]
  readonly waitsOn: { readonly limit: string; readonly key: string | null } | null
  readonly [field: string]: unknown
}

/** A job as a row of a list. */
export function jobRow(call: AnyCall, job: JobView): object {
  const { redact } = call.server.monitor
  const { id, task, state, priority, attempt, maxAttempts, error, flow, occurrence } = job
  const seen = seenBy(call)
  return {
    id,
    task,
    queue: seen.name(job.queue),
    state,
    priority,
    attempt,
    maxAttempts,
    createdAt: timeOf(job.createdAt),
    startedAt: timeOf(job.startedAt),
    finishedAt: timeOf(job.finishedAt),
    throttledUntil: timeOf(job.throttledUntil),
    tags: [...job.tags],
    meta: redact({ ...job.meta }),
    preview: previewOf(redact(job.input)),
    error: error && { ...error, ...(error.details && { details: redact(error.details) }) },
    ...(flow && { flow: { ...flow } }),
    ...(occurrence && {
      occurrence: { schedule: seen.name(occurrence.schedule), dueAt: occurrence.dueAt.toISOString() },
    }),
  }
}

/** An explanation as JSON, with the caller's own names of limits and queues. */
export function explanationJson(call: AnyCall, explained: JobExplanation): Explained {
  const found = toldExplanation(call, explained)
  const seen = seenBy(call)
  const own = <T extends { readonly limit: string; readonly key: string | null }>(use: T): T => ({
    ...use,
    limit: seen.name(use.limit),
  })
  const { fairKey, share, headroom, guardUs, position, linePosition, exact, served, known, eachWorker } = found
  return {
    words: seen.tenant === null ? found.words : ownWords(found.words, found),
    unresolved: found.unresolved === true,
    limits: found.limits.map(own),
    fairKey,
    share,
    waitsOn: found.waitsOn && own(found.waitsOn),
    headroom: headroom && { units: headroom.units, priority: headroom.priority },
    ...(guardUs !== undefined && { guardMs: guardUs / 1000 }),
    ...(eachWorker && {
      eachWorker: eachWorker.map(({ worker, waitsOn, until }) => ({
        worker,
        waitsOn: waitsOn && own(waitsOn),
        until: timeOf(until),
      })),
    }),
    position,
    linePosition,
    since: timeOf(found.since),
    until: timeOf(found.until),
    expectedStart: timeOf(found.expectedStart),
    exact,
    givenUpAt: timeOf(found.givenUpAt),
    served,
    known,
    overrides: found.overrides.map((each) => overrideJson(call, each)),
  }
}

function previewOf(input: unknown): string {
  const text = JSON.stringify(input) ?? ''
  if (text.length <= PREVIEW_CHARACTERS) return text
  // Not half of a surrogate pair at the end.
  return `${text.slice(0, PREVIEW_CHARACTERS).toWellFormed()}…`
}
