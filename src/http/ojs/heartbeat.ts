import { z } from 'zod'
import type { JobDetails } from '../../store/contract/remote-jobs.ts'
import { ok, operation, type Operation } from '../operation.ts'
import { ownName } from '../tenant.ts'
import { DEFAULT_LEASE_US } from './fetch.ts'
import { extraOf } from './job-json.ts'
import { maySee } from './jobs.ts'
import { Millis, WorkerId } from './schemas.ts'

const Ids = z.array(z.string().max(64)).max(1000)
const LONGEST_ABOUT = 4096

/** BEAT: extends a worker's leases. */
export const heartbeat: Operation = operation({
  method: 'POST',
  path: '/ojs/v1/workers/heartbeat',
  name: 'heartbeat',
  summary: 'Extend the leases of a worker’s jobs, and read its directive.',
  body: z.looseObject({
    worker_id: WorkerId,
    active_jobs: z.union([z.int().min(0), Ids]).optional(),
    active_job_ids: Ids.optional(),
    visibility_timeout_ms: Millis.optional(),
    hostname: z.string().max(255).optional(),
    pid: z.number().optional(),
    state: z.string().max(64).optional(),
    labels: z.array(z.string().max(255)).max(100).optional(),
    concurrency: z.number().optional(),
  }),
  answers: { 200: 'The worker’s directive, and the jobs that it still holds.' },
  async run(call) {
    const { body, server, tenant } = call
    const ids = Array.isArray(body.active_jobs) ? body.active_jobs : (body.active_job_ids ?? [])
    const leaseMs = body.visibility_timeout_ms
    const leaseUsOf = (job: JobDetails): number =>
      leaseMs === undefined ? (job.leasedUs ?? DEFAULT_LEASE_US) : leaseMs * 1000
    const { hostname, pid, state, labels, concurrency } = body
    const about = JSON.stringify({ hostname, pid, state, labels, concurrency })
    const worker = ownName(tenant, body.worker_id)
    await server.names.admit('workers', tenant, [worker])
    const answer = await server.remote.heartbeat(
      worker,
      ids,
      leaseUsOf,
      about.length <= LONGEST_ABOUT ? about : null,
      (job) => maySee(call, job),
    )
    return ok({
      state: (server.testMode ? directiveOf(answer.held) : null) ?? answer.directive,
      jobs_extended: answer.held.map((job) => job.id),
      server_time: new Date(server.clock.now()).toISOString(),
    })
  },
})

/** Test suites direct a worker through a job that it runs. */
function directiveOf(held: readonly JobDetails[]): string | null {
  for (const job of held) {
    const directive = extraOf(job).ojs?.options.metadata?.['test_directive']
    if (directive === 'quiet' || directive === 'terminate') return directive
  }
  return null
}
