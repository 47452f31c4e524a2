import type { JobExplanation } from '../../engine/api/job-explanation.ts'
import type { JobDetails } from '../../store/contract/remote-jobs.ts'
import { type Call, ok, operation, type Operation } from '../operation.ts'
import { toldExplanation } from '../told-overrides.ts'
import { splitName } from '../tenant.ts'
import { codeOf } from './job-json.ts'
import { namedJob } from './jobs.ts'
import { JobParams } from './schemas.ts'

/** Explains why a job waits, as data and in words. */
export const explainJob: Operation = operation({
  method: 'GET',
  path: '/ojs/v1/jobs/:id/explain',
  name: 'explainJob',
  summary: 'Explain why a job waits: its budget, its position and the expected start.',
  params: JobParams,
  answers: { 200: 'The reason why the job waits.' },
  async run(call) {
    const { id } = await namedJob(call, call.params.id)
    return ok(explanationJson(call, await call.server.sluice.jobs.explain(id)))
  },
})

/** The budget that a job waits for; undefined: it waits for none. */
export async function waitOf(
  { server }: Call<unknown, unknown, unknown>,
  { id, state }: JobDetails,
): Promise<Record<string, unknown> | undefined> {
  if (state !== 'available' && state !== 'scheduled') return undefined
  return waitJson(await server.sluice.jobs.explain(id))
}

function waitJson(found: JobExplanation): Record<string, unknown> | undefined {
  const { waitsOn, position, linePosition, expectedStart, until, exact } = found
  if (!waitsOn) return undefined
  return {
    limit: splitName(waitsOn.limit).name,
    key: waitsOn.key,
    position: linePosition ?? position,
    expected_start: expectedStart?.toISOString() ?? null,
    throttled_until: until?.toISOString() ?? null,
    exact,
  }
}

/** The explanation of a job as JSON. */
export function explanationJson(
  call: Call<unknown, unknown, unknown>,
  explained: JobExplanation,
): Record<string, unknown> {
  const found = toldExplanation(call, explained)
  const time = (date: Date | null): string | null => date?.toISOString() ?? null
  const bucket = (of: { limit: string; key: string | null } | null): object | null =>
    of && { limit: splitName(of.limit).name, key: of.key }
  const { job } = found
  return {
    job_id: job.id,
    type: job.task,
    queue: splitName(job.queue).name,
    state: job.state,
    error_code: job.error ? codeOf(job.error.code) : undefined,
    limits: found.limits.map(({ limit, key, weight }) => ({ limit: splitName(limit).name, key, weight })),
    waits_on: bucket(found.waitsOn),
    x_wait: waitJson(found) ?? null,
    position: found.position,
    line_position: found.linePosition,
    since: time(found.since),
    throttled_until: time(found.until),
    expected_start: time(found.expectedStart),
    exact: found.exact,
    given_up_at: time(found.givenUpAt),
    paused: found.paused,
    served: found.served,
    fair_key: found.fairKey,
    share: found.share,
    headroom: found.headroom,
    each_worker: found.eachWorker?.map(({ worker, waitsOn, until }) => ({
      worker,
      waits_on: bucket(waitsOn),
      until: time(until),
    })),
    overrides: found.overrides.map(({ limit, kind, key, change, until, by, reason }) => ({
      limit: splitName(limit).name,
      kind,
      key,
      change,
      expires_at: time(until),
      by,
      reason,
    })),
    words: ownWords(found.words, found),
  }
}

/** Replaces stored names by the tenant's own names of its queues and limits. */
export function ownWords(words: string, { job, limits }: JobExplanation): string {
  let text = words
  for (const stored of [job.queue, ...limits.map(({ limit }) => limit)]) {
    const { tenant, name } = splitName(stored)
    if (tenant !== '') text = text.replaceAll(stored, name)
  }
  return text
}
