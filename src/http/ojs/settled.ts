import { z } from 'zod'
import type { Holder, RemoteSettled } from '../../remote/settle.ts'
import type { JobDetails } from '../../store/contract/remote-jobs.ts'
import type { Call } from '../operation.ts'
import { notFound, Refusal } from '../refusal.ts'
import { ownName } from '../tenant.ts'
import { maySee, wrongState } from './jobs.ts'

/** A worker's description of the run that it settles. All members are optional; those given have to be right. */
export interface Claimant {
  readonly charge?: readonly { readonly limit: string; readonly units: number }[] | null | undefined
  readonly rate_limit_headers?: Readonly<Record<string, HeaderValue>> | null | undefined
  readonly worker_id?: string | null | undefined
  readonly attempt?: number | null | undefined
}

/** The settling worker, as the engine compares it. */
export function holderOf(call: Call<unknown, unknown, unknown>, claimant: Claimant): Holder {
  const { worker_id: worker, attempt, charge, rate_limit_headers: headers } = claimant
  const { server, tenant } = call
  const feedback = {
    charges: (charge ?? []).map(({ limit, units }) => ({
      limit: server.limits.storedName(tenant, limit),
      units,
      isOfAll: (key: string) => server.limits.isOfAll(tenant, limit, key),
    })),
    headers: headers ?? null,
  }
  const name = typeof worker === 'string' ? ownName(call.tenant, worker) : undefined
  return {
    worker: name,
    attempt: attempt ?? undefined,
    sees: (job) => maySee(call, job),
    ...((charge || headers) && { feedback }),
  }
}

/** A header as HTTP clients return it. */
export type HeaderValue = string | number | string[]

const Value = z.string().max(4096)

/** The budget members of an ack and a nack. */
export const BudgetReport: {
  readonly charge: z.ZodType<{ limit: string; units: number }[] | null | undefined>
  readonly rate_limit_headers: z.ZodType<Record<string, HeaderValue> | null | undefined>
} = {
  charge: z
    .array(z.strictObject({ limit: z.string().min(1).max(255), units: z.int() }))
    .max(100)
    .nullish()
    .meta({ description: 'The cost of the call beyond its weight, by limit; negative: less.' }),
  rate_limit_headers: z
    .record(z.string().max(255), z.union([Value, z.number(), z.array(Value).max(20)]))
    .nullish()
    .meta({ description: 'Headers of the API’s answer. Limits with calibrate correct their budget by them.' }),
}

/** The job after its settlement. @throws {Refusal} 404, 409 */
export function settledJob(settled: RemoteSettled, id: string, what: string): JobDetails {
  if (settled.kind === 'missing') throw notFound('job', id)
  if (settled.kind === 'settled') return settled.after
  if (settled.why === 'state') throw wrongState(id, settled.state, what)
  throw new Refusal(409, 'conflict', `The job ${id} now belongs to another run, of this or of another worker.`, {
    details: { resource_type: 'job', resource_id: id, current_state: settled.state },
  })
}
