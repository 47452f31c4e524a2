import { objectIn } from '../../base/json-value.ts'
import { type FlowRecord, isWorkflowKind } from '../../jobs/flow.ts'
import { type JobExtra, extraOf } from '../../jobs/job-extra.ts'
import type { NewWorkflow } from '../../jobs/workflow.ts'
import type { Call } from '../operation.ts'
import { notFound } from '../refusal.ts'
import { ownName, splitName } from '../tenant.ts'

/** The tenant of a flow that was started over HTTP, and the queue that a token must be allowed to name. */
export interface Owner {
  readonly tenant: string
  readonly queue: string
}

interface OwnedExtra extends JobExtra {
  readonly owner?: Owner
}

/** A flow that the caller may see, with its owner. */
export interface NamedFlow {
  readonly record: FlowRecord
  readonly owner: Owner
}

/** Flows start each other over at most so many levels. */
const DEEPEST = 100

/** Gives a flow to the tenant that starts it. Its key is the tenant's own. */
export function ownedBy({ tenant, queue }: Owner, start: NewWorkflow): NewWorkflow {
  return {
    ...start,
    key: start.key === null ? null : ownName(tenant, start.key),
    extra: JSON.stringify({ ...objectIn(start.extra), owner: { tenant, queue } }),
  }
}

/** The tenant's own name of a flow's key. */
export function ownKey(key: string | null, { tenant }: Owner): string | null {
  return key === null || tenant === '' || !key.startsWith(`${tenant}/`) ? key : key.slice(tenant.length + 1)
}

/**
 * The flow that a call names. A flow of another tenant, or of a queue that the token may not name, is reported as
 * missing. @throws {Refusal} 404
 */
export async function namedFlow(call: Call<unknown, unknown, unknown>, id: string): Promise<NamedFlow> {
  const record = await (await call.server.remote.store()).getFlow(id)
  const found = record && isWorkflowKind(record.kind) ? await seen(call, record) : null
  if (!found) throw notFound('flow', id)
  return found
}

/** A flow, if the caller may see it; else null. An admin without a tenant sees the flows of all tenants. */
export async function seen(call: Call<unknown, unknown, unknown>, record: FlowRecord): Promise<NamedFlow | null> {
  const { access, tenant } = call
  const owner = await ownerOf(call, record)
  const own = owner?.tenant === tenant || (tenant === '' && access.scopes.has('admin') && access.tenant === null)
  return owner && own && access.mayName(owner.queue) ? { record, owner } : null
}

/**
 * The owner of a flow. A child belongs to the owner of its parent. A flow that no request started belongs to the tenant
 * of its queue, by its first job. Null: that job is gone.
 */
async function ownerOf(call: Call<unknown, unknown, unknown>, record: FlowRecord): Promise<Owner | null> {
  const store = await call.server.remote.store()
  let top = record
  for (let level = 0; level < DEEPEST; level++) {
    const { owner } = extraOf<OwnedExtra>(top)
    if (owner) return owner
    const parent = top.parent === null ? null : await store.getFlow(top.parent)
    if (!parent) break
    top = parent
  }
  const job = await store.get(top.id)
  if (!job) return null
  const { tenant, name } = splitName(job.queue)
  return { tenant, queue: name }
}
