import { type FlowOwner, type FlowQuery, type FlowRecord, isWorkflowKind, keyOfTenant } from '../../jobs/flow.ts'
import type { NewWorkflow } from '../../jobs/workflow.ts'
import type { Call } from '../operation.ts'
import { notFound } from '../refusal.ts'

/** A flow that the caller may see, with its owner. */
export interface NamedFlow {
  readonly record: FlowRecord
  readonly owner: FlowOwner
}

/** Gives a flow to the tenant that starts it. Its key is the tenant's own. */
export function ownedBy({ tenant, queue }: FlowOwner, start: NewWorkflow): NewWorkflow {
  return {
    ...start,
    key: start.key === null ? null : keyOfTenant(tenant, start.key),
    owner: { tenant, queue },
  }
}

/** The tenant's own name of a flow's key. */
export function ownKey(key: string | null, { tenant }: FlowOwner): string | null {
  const own = keyOfTenant(tenant, '')
  return key?.startsWith(own) ? key.slice(own.length) : key
}

/** The flow of a workflow that a call names. @throws {Refusal} 404 */
export async function namedFlow(call: Call<unknown, unknown, unknown>, id: string): Promise<NamedFlow> {
  const named = await seenFlow(call, id)
  if (!isWorkflowKind(named.record.kind)) throw notFound('flow', id)
  return named
}

/**
 * The flow of any kind that a call names. A flow of another tenant, or of a queue that the token may not name, is
 * reported as missing. @throws {Refusal} 404
 */
export async function seenFlow(call: Call<unknown, unknown, unknown>, id: string): Promise<NamedFlow> {
  const record = await (await call.server.remote.store()).getFlow(id)
  const owner = record?.owner
  if (!record || !owner || !sees(call, owner)) throw notFound('flow', id)
  return { record, owner }
}

/** The flows that the caller may see. An admin without a tenant sees the flows of all tenants. */
export function visibleTo({
  access,
  tenant,
}: Call<unknown, unknown, unknown>): Pick<FlowQuery, 'queues'> & { readonly tenant?: string } {
  const ofAll = tenant === '' && access.allTenants
  return { ...(!ofAll && { tenant }), queues: access.queues }
}

function sees(call: Call<unknown, unknown, unknown>, { tenant, queue }: FlowOwner): boolean {
  const { tenant: own = tenant } = visibleTo(call)
  return own === tenant && call.access.mayName(queue)
}
