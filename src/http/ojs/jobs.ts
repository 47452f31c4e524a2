import type { JobDetails } from '../../store/contract/remote-jobs.ts'
import { requireQueue } from '../access.ts'
import type { Call } from '../operation.ts'
import { notFound, Refusal } from '../refusal.ts'
import { isOwn, splitName } from '../tenant.ts'

/**
 * The job that a call names. A job of another tenant, or of a queue that the token may not name, is reported as
 * missing. @throws {Refusal} 404
 */
export async function namedJob(call: Call<unknown, unknown, unknown>, id: string): Promise<JobDetails> {
  const job = await call.server.remote.get(id)
  if (!job || !maySee(call, job)) throw notFound('job', id)
  call.concerns(job.queue)
  return job
}

/** Returns whether the caller may see a job. An admin without a tenant sees the jobs of all tenants. */
export function maySee({ tenant, access }: Call<unknown, unknown, unknown>, job: { readonly queue: string }): boolean {
  const own = isOwn(tenant, job.queue) || (tenant === '' && access.scopes.has('admin') && access.tenant === null)
  return own && access.mayName(splitName(job.queue).name)
}

/** Checks all queues that a request names. @throws {Refusal} 403 */
export function requireQueues({ access }: Call<unknown, unknown, unknown>, queues: Iterable<string>): void {
  for (const queue of queues) requireQueue(access, queue)
}

/** Makes the refusal of a job whose state does not allow the request. */
export function wrongState(id: string, state: string, what: string): Refusal {
  return new Refusal(409, 'conflict', `The job ${id} is ${state} and cannot be ${what}.`, {
    details: { resource_type: 'job', resource_id: id, current_state: state },
  })
}
