import type { NewJob } from '../../jobs/job.ts'
import type { JobDetails, PushAnswer } from '../../store/contract/remote-jobs.ts'
import { afterCommit } from '../after-commit.ts'
import type { LimitDefinition } from '../../policy/limits/limit.ts'
import type { BucketUse } from '../../store/contract/store.ts'
import type { Call } from '../operation.ts'
import { Refusal } from '../refusal.ts'
import { pressureHeaders, queueFull } from './backpressure.ts'
import { maySee } from './jobs.ts'
import { readyJobs } from './ready-jobs.ts'
import type { JobJson } from './schemas.ts'

/** The result of storing jobs. */
export interface Stored {
  readonly jobs: readonly JobDetails[]
  /** Some job was stored before. */
  readonly duplicate: boolean
  readonly headers: Readonly<Record<string, string>>
}

/** Stores sent jobs, all or none. @throws {Refusal} */
export async function storeJobs(call: Call<unknown, unknown, unknown>, sent: readonly JobJson[]): Promise<Stored> {
  const { server } = call
  const ready = await readyJobs(call, sent)
  const answer = await pushed(call, ready.jobs, ready.limits)
  const { logger } = server
  const nowMs = server.clock.now()
  const now = { nowUs: nowMs * 1000, wallUs: nowMs * 1000 }
  const jobs = await Promise.all(
    answer.answers.map(async ({ kind, id }, i) => {
      const job = { ...(ready.jobs[i] as NewJob), id }
      // A new job is what was sent, unless its time is over already.
      if (kind === 'created' && answer.at && (job.expiresAtMs ?? Infinity) > nowMs) return asStored(job, answer.at)
      return afterCommit(
        logger,
        call.requestId,
        () => server.remote.get(id),
        () => asStored(job, now),
      )
    }),
  )
  const left = afterCommit(
    logger,
    call.requestId,
    () => rateLimitHeaders(call, ready.named),
    () => ({}),
  )
  return {
    // A token that may not name the queue of a unique key's holder does not see that job.
    jobs: jobs.flatMap((job, i) =>
      job === null || maySee(call, job) ? (job ?? []) : asStored({ ...(ready.jobs[i] as NewJob), id: job.id }, now),
    ),
    duplicate: answer.answers.some(({ kind }) => kind === 'duplicate'),
    headers: { ...pressureHeaders(answer.depths), ...(await left) },
  }
}

/** Stores jobs that are ready, within the bounds of their queues. @throws {Refusal} 409, 429 */
export async function pushed(
  call: Call<unknown, unknown, unknown>,
  jobs: readonly NewJob[],
  limits: readonly LimitDefinition[],
): Promise<Exclude<PushAnswer, { kind: 'refused' }>> {
  const answer = await call.server.remote.push(jobs, limits)
  if (answer.kind === 'refused') throw await refused(call, answer)
  return answer
}

/** A job as it was sent to the store, for an answer without a read. */
function asStored(job: NewJob, { nowUs, wallUs }: { readonly nowUs: number; readonly wallUs: number }): JobDetails {
  const runAtUs = job.runAtMs === null ? null : Math.round(job.runAtMs * 1000)
  const isLater = runAtUs !== null && runAtUs > wallUs
  return {
    seq: 0,
    id: job.id,
    task: job.task,
    queue: job.queue,
    state: job.terms?.pending ? 'pending' : isLater ? 'scheduled' : 'available',
    priority: job.priority,
    input: job.input,
    attempt: 0,
    maxAttempts: job.maxAttempts,
    createdUs: nowUs,
    sinceUs: nowUs,
    dueUs: isLater && !job.terms?.pending ? runAtUs : null,
    startedUs: null,
    finishedUs: null,
    result: null,
    error: null,
    extra: job.extra,
    expiresMs: job.expiresAtMs,
    worker: null,
    workerName: null,
    engineRuns: false,
    pushedBack: 0,
    leaseUs: null,
    leasedUs: null,
    timeoutUs: null,
    errors: [],
    progress: null,
    deadLetter: false,
    keptUntilUs: null,
    throttledUntilUs: null,
  }
}

async function refused(
  call: Call<unknown, unknown, unknown>,
  { why }: Extract<PushAnswer, { kind: 'refused' }>,
): Promise<Refusal> {
  if (why.kind === 'full') return queueFull(why)
  const held = await call.server.remote.get(why.id)
  // The job of another tenant is not visible to this one, so the answer says nothing about it.
  if (!held || !maySee(call, held))
    return new Refusal(409, 'duplicate', 'The id or the unique key is taken. Nothing was enqueued.', {
      hint: 'Use another id, or omit it.',
    })
  const words =
    why.kind === 'taken' ? `A job with the id ${why.id} exists` : `The job ${why.id} has the same unique key`
  return new Refusal(409, 'duplicate', `${words}. Nothing was enqueued.`, {
    details: { existing_job_id: why.id },
  })
}

/** The remaining budget of the first job that names one. */
async function rateLimitHeaders(
  { server }: Call<unknown, unknown, unknown>,
  use: BucketUse | null,
): Promise<Record<string, string>> {
  if (!use) return {}
  const [bucket] = await server.sluice.limits.inspect(use.limit, use.key === '' ? undefined : use.key)
  if (!bucket) return {}
  const resetMs = bucket.nextStart?.getTime() ?? server.clock.now()
  return {
    'X-RateLimit-Limit': String(bucket.capacity),
    'X-RateLimit-Remaining': String(Math.max(0, bucket.available)),
    'X-RateLimit-Reset': String(Math.ceil(resetMs / 1000)),
  }
}
