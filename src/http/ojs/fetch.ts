import { z } from 'zod'
import { type Duration, durationMs } from '../../base/duration.ts'
import type { RemoteFetch } from '../../remote/claims.ts'
import { ok, operation, type Operation } from '../operation.ts'
import { unprocessable } from '../refusal.ts'
import { watchRights } from '../still-allowed.ts'
import { ownName } from '../tenant.ts'
import { jobJson } from './job-json.ts'
import { requireQueues } from './jobs.ts'
import { JobType, Millis, QueueName, WorkerId } from './schemas.ts'

/** The worker of a fetch without a name. */
const ANONYMOUS = 'anonymous'
/** The lease of a fetch without a visibility timeout, by the worker protocol. */
export const DEFAULT_LEASE_US = 1_800_000_000
const LONGEST_WAIT_MS = 60_000
const NAME = 'fetchJobs'

/** FETCH: takes jobs to run. */
export const fetchJobs: Operation = operation({
  method: 'POST',
  path: '/ojs/v1/workers/fetch',
  name: NAME,
  summary: 'Take jobs to run, from the first queue that has some.',
  body: z.looseObject({
    queues: z.array(QueueName).min(1).max(100),
    types: z
      .array(JobType)
      .min(1)
      .max(1000)
      .optional()
      .meta({ description: 'The types of the jobs that the worker takes; default: any.' }),
    count: z.int().min(1).max(1000).default(1),
    worker_id: WorkerId.nullish(),
    visibility_timeout_ms: Millis.nullish(),
    wait: z
      .union([z.number().min(0), z.string().max(64)])
      .optional()
      .meta({ description: 'The longest wait for work: ms, or an ISO 8601 duration; at most a minute.' }),
  }),
  answers: { 200: 'The jobs; none if there is no work.' },
  async run(call) {
    const { body, server, tenant, access, gone } = call
    requireQueues(call, body.queues)
    const waitMs = body.wait === undefined ? 0 : durationMs(body.wait as Duration, 'wait')
    if (waitMs > LONGEST_WAIT_MS)
      throw unprocessable(`wait is invalid: ${waitMs} ms. Expected at most ${LONGEST_WAIT_MS} ms.`)
    const queues = [...new Set(body.queues)].map((queue) => ownName(tenant, queue))
    const worker = ownName(tenant, body.worker_id ?? ANONYMOUS)
    const revoked = new AbortController()
    const leaseMs = body.visibility_timeout_ms ?? null
    const fetched: RemoteFetch = {
      worker,
      queues,
      ...(body.types && { tasks: [...new Set(body.types)] }),
      count: body.count,
      leaseUs: leaseMs === null ? DEFAULT_LEASE_US : leaseMs * 1000,
      waitMs,
      signal: waitMs > 0 ? AbortSignal.any([gone(), revoked.signal]) : gone(),
      bytes: server.bounds.answerBytes,
    }
    const letGo = waitMs > 0 ? server.heldOpen.take(access, 'polls') : null
    // Who waits must have the right until the end.
    const unwatch = waitMs > 0 ? watchRights(call, NAME, () => revoked.abort()) : null
    try {
      await server.names.admit('workers', tenant, [worker])
      await server.names.admit('queues', tenant, queues)
      return ok({ jobs: (await server.remote.fetch(fetched)).map(jobJson) })
    } finally {
      unwatch?.()
      letGo?.()
    }
  },
})
