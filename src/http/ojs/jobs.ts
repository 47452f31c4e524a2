import type { JobDetails } from '../../store/contract/remote-jobs.ts'
import { requireQueue } from '../access.ts'
import type { Call } from '../operation.ts'
import { notFound, Refusal } from '../refusal.ts'
import { isOwn, splitName } from '../tenant.ts'

/**
 * A job that a call names, as it stands; another tenant's, or one of a queue that the token may not name, is not there.
 * @throws Refusal 404
 */
export async function namedJob(call: Call<unknown, unknown, unknown>, id: string): Promise<JobDetails> {
  const job = await call.server.remote.get(id)
  if (!job || !maySee(call, job)) throw notFound('job', id)
  return job
}

/** Whether a job is the caller's to see. Without a tenant an admin sees those of all tenants. */
export function maySee({ tenant, access }: Call<unknown, unknown, unknown>, job: { readonly queue: string }): boolean {
  const own = isOwn(tenant, job.queue) || (tenant === '' && access.scopes.has('admin') && access.tenant === null)
  return own && access.mayName(splitName(job.queue).name)
}

/** Checks all queues that a request names. @throws Refusal 403 */
export function requireQueues({ access }: Call<unknown, unknown, unknown>, queues: Iterable<string>): void {
  for (const queue of queues) requireQueue(access, queue)
}

/** A job whose state does not allow what was asked. */
export function wrongState(id: string, state: string, what: string): Refusal {
  return new Refusal(409, 'conflict', `The job ${id} is ${state} and cannot be ${what}.`, {
    details: { resource_type: 'job', resource_id: id, current_state: state },
  })
}
