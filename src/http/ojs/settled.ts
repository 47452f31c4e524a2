import type { Holder, RemoteSettled } from '../../engine/remote-settle.ts'
import type { JobFacts } from '../../store/outside.ts'
import type { Call } from '../operation.ts'
import { notFound, Refusal } from '../refusal.ts'
import { ownName } from '../tenant.ts'
import { maySee, wrongState } from './jobs.ts'

/** What a worker says of the run that it settles; all of it has to be right, and none of it need be said. */
export interface Claimant {
  readonly worker_id?: string | null | undefined
  readonly attempt?: number | null | undefined
}

/** Whoever settles, as the engine compares it. */
export function holderOf(call: Call<unknown, unknown, unknown>, { worker_id: worker, attempt }: Claimant): Holder {
  const name = typeof worker === 'string' ? ownName(call.tenant, worker) : undefined
  return { worker: name, attempt: attempt ?? undefined, sees: (job) => maySee(call, job) }
}

/** The job after it was settled. @throws Refusal 404, 409 */
export function settledJob(settled: RemoteSettled, id: string, what: string): JobFacts {
  if (settled.kind === 'missing') throw notFound('job', id)
  if (settled.kind === 'settled') return settled.after ?? settled.before
  if (settled.why === 'state') throw wrongState(id, settled.state, what)
  throw new Refusal(409, 'conflict', `The job ${id} is run by somebody else now, or was given to its worker anew.`, {
    details: { resource_type: 'job', resource_id: id, current_state: settled.state },
  })
}
