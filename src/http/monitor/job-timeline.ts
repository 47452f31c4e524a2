import { z } from 'zod'
import type { JobDetails } from '../../store/contract/remote-jobs.ts'
import type { Explained } from './job-json.ts'
import { Time, TimeOrNull } from './monitor-operation.ts'
import type { Redactor } from './redact.ts'

/** One stretch of a job's life. */
export const TimelineJson: z.ZodType = z.object({
  kind: z.enum(['arrived', 'waited', 'attempt', 'ended']),
  at: Time,
  until: TimeOrNull.meta({ description: 'Null: it lasts, or its end is not known.' }),
  limit: z.string().optional(),
  key: z.string().nullable().optional(),
  attempt: z.number().optional(),
  durationMs: z.number().optional(),
  error: z.looseObject({ code: z.string(), message: z.string() }).optional(),
  words: z.string(),
})
TimelineJson.register(z.globalRegistry, { id: 'MonitorTimeline' })

/** One stretch of a job's life. */
interface Entry {
  readonly kind: 'arrived' | 'waited' | 'attempt' | 'ended'
  readonly at: string
  readonly until: string | null
  readonly limit?: string
  readonly key?: string | null
  readonly attempt?: number
  readonly durationMs?: number
  readonly error?: object
  readonly words: string
}

/** The life of a job so far, oldest first. @param wait absent: it does not wait */
export function timelineOf(job: JobDetails, wait: Explained | null, redact: Redactor): Entry[] {
  const { createdUs, startedUs, finishedUs, sinceUs, attempt, state, errors } = job
  const entries: Entry[] = [{ kind: 'arrived', at: timeOf(createdUs), until: null, words: 'The job arrived.' }]
  const beforeUs = errors.findLast((each) => each.attempt < attempt)?.atUs ?? createdUs
  // Only the start of the last attempt is kept.
  const waited: Entry[] =
    startedUs === null || startedUs <= beforeUs
      ? []
      : [
          {
            kind: 'waited',
            at: timeOf(beforeUs),
            until: timeOf(startedUs),
            attempt,
            durationMs: (startedUs - beforeUs) / 1000,
            words: `Attempt ${attempt} waited for its start.`,
          },
        ]
  for (const { attempt: failed, atUs, retryDelayMs, ...error } of errors) {
    if (failed === attempt) entries.push(...waited)
    const again = retryDelayMs === undefined ? '' : ' and was to run again later'
    entries.push({
      kind: 'attempt',
      at: timeOf(failed === attempt && startedUs !== null ? Math.min(startedUs, atUs) : atUs),
      until: timeOf(atUs),
      attempt: failed,
      ...(failed === attempt && startedUs !== null && { durationMs: Math.max(0, atUs - startedUs) / 1000 }),
      error: { ...error, ...(error.details && { details: redact(error.details) }) },
      words: `Attempt ${failed} failed${again}.`,
    })
  }
  const hasFailed = errors.some((each) => each.attempt === attempt)
  if (attempt > 0 && startedUs !== null && !hasFailed && state !== 'available' && state !== 'scheduled')
    entries.push(...waited, {
      kind: 'attempt',
      at: timeOf(startedUs),
      until: finishedUs === null ? null : timeOf(finishedUs),
      attempt,
      ...(finishedUs !== null && { durationMs: Math.max(0, finishedUs - startedUs) / 1000 }),
      words: finishedUs === null ? `Attempt ${attempt} runs.` : `Attempt ${attempt} ran.`,
    })
  if (wait)
    entries.push({
      kind: 'waited',
      at: timeOf(sinceUs),
      until: null,
      ...(wait.waitsOn && { limit: wait.waitsOn.limit, key: wait.waitsOn.key }),
      words: wait.words,
    })
  if (finishedUs !== null)
    entries.push({ kind: 'ended', at: timeOf(finishedUs), until: null, words: `The job was ${state}.` })
  return entries
}

function timeOf(us: number): string {
  return new Date(us / 1000).toISOString()
}
