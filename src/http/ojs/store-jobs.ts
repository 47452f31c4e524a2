import type { NewJob } from '../../jobs/job.ts'
import type { JobFacts, Offered } from '../../store/outside.ts'
import { afterCommit } from '../after-commit.ts'
import type { Call } from '../operation.ts'
import { Refusal, unprocessable } from '../refusal.ts'
import { pressureHeaders, queueFull } from './backpressure.ts'
import { requireQueues } from './jobs.ts'
import { newJob, type ReadyJob } from './new-job.ts'
import type { JobJson } from './schemas.ts'

/** What storing jobs came to. */
export interface Stored {
  readonly jobs: readonly JobFacts[]
  /** Some job is an earlier one. */
  readonly duplicate: boolean
  readonly headers: Readonly<Record<string, string>>
}

/** Stores jobs as they were sent, all or none. @throws Refusal */
export async function storeJobs(call: Call<unknown, unknown, unknown>, sent: readonly JobJson[]): Promise<Stored> {
  const { server, tenant } = call
  const nowMs = server.clock.now()
  requireQueues(call, new Set(sent.map((json) => json.options?.queue ?? 'default')))
  const ready = sent.map((json) => newJob(json, tenant, nowMs, server.newId))
  await checkWeights(call, ready)
  const offered = await server.remote.offer(
    ready.map(({ job }) => job),
    newest(ready),
  )
  if (offered.kind === 'refused') throw refused(offered)
  const { logger } = server
  const jobs = await Promise.all(
    offered.answers.map(({ id }, i) =>
      afterCommit(
        logger,
        call.requestId,
        () => server.remote.get(id),
        () => asStored({ ...(ready[i] as ReadyJob).job, id }, nowMs),
      ),
    ),
  )
  const left = afterCommit(
    logger,
    call.requestId,
    () => rateLimitHeaders(call, ready),
    () => ({}),
  )
  return {
    jobs: jobs.filter((job) => job !== null),
    duplicate: offered.answers.some((answer) => answer.kind === 'duplicate'),
    headers: { ...pressureHeaders(offered.depths), ...(await left) },
  }
}

/** A job as it was handed to the store, for when it cannot be read back. */
export function asStored(job: NewJob, nowMs: number): JobFacts {
  const nowUs = nowMs * 1000
  const isLater = job.runAtMs !== null && job.runAtMs > nowMs
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
    dueUs: isLater && job.runAtMs !== null ? job.runAtMs * 1000 : null,
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
    throttledUntilUs: null,
  }
}

/** A start that costs more than a limit ever holds would wait for ever. @throws Refusal 422 */
async function checkWeights({ server }: Call<unknown, unknown, unknown>, ready: readonly ReadyJob[]): Promise<void> {
  const heavy = ready.flatMap(({ limits }) => limits.uses.filter((use) => use.weight > 1))
  if (heavy.length === 0) return
  const known = new Map((await (await server.remote.store()).limits()).map(({ name, policy }) => [name, policy.rule]))
  for (const { limit, weight } of heavy) {
    const rule = known.get(limit)
    const most = !rule || rule.kind === 'spacing' ? weight : rule.kind === 'rate' ? rule.burst : rule.max
    if (weight > most)
      throw unprocessable(
        `rate_limit.x_limit: a start of weight ${weight} needs more than the ${most} units of ${limit}`,
      )
  }
}

/** Of the policies that jobs bring for one key the last counts. */
function newest(ready: readonly ReadyJob[]): ReadyJob['limits']['definitions'] {
  const byName = new Map(ready.flatMap(({ limits }) => limits.definitions.map((each) => [each.name, each])))
  return [...byName.values()]
}

function refused({ why }: Extract<Offered, { kind: 'refused' }>): Refusal {
  if (why.kind === 'full') return queueFull(why)
  const words = why.kind === 'taken' ? `A job with the id ${why.id} is stored` : `The job ${why.id} is the same`
  return new Refusal(409, 'duplicate', `${words} already: nothing was enqueued.`, {
    details: { existing_job_id: why.id },
  })
}

/** What is left of the budget of the first job that names one. */
async function rateLimitHeaders(
  { server }: Call<unknown, unknown, unknown>,
  ready: readonly ReadyJob[],
): Promise<Record<string, string>> {
  const use = ready.find(({ limits }) => limits.uses.length > 0)?.limits.uses[0]
  if (!use) return {}
  const known = (await (await server.remote.store()).limits()).some((each) => each.name === use.limit)
  const [bucket] = known ? await server.sluice.limits.inspect(use.limit, use.key === '' ? undefined : use.key) : []
  if (!bucket) return {}
  const resetMs = bucket.nextStart?.getTime() ?? server.clock.now()
  return {
    'X-RateLimit-Limit': String(bucket.capacity),
    'X-RateLimit-Remaining': String(Math.max(0, bucket.available)),
    'X-RateLimit-Reset': String(Math.ceil(resetMs / 1000)),
  }
}
