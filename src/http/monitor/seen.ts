import type { Call } from '../operation.ts'
import { sharedByAll } from '../access.ts'
import { notFound } from '../refusal.ts'
import { isOwn, ownName, splitName } from '../tenant.ts'

type AnyCall = Call<unknown, unknown, unknown>

/** The view of a caller: all things by their stored names, or those of one tenant by the tenant's names. */
export interface Seen {
  /** Null: all tenants. Empty: things without a tenant. */
  readonly tenant: string | null
  owns(stored: string): boolean
  /** The caller's name of a stored one. */
  name(stored: string): string
  /** The stored name of the caller's. */
  stored(name: string): string
}

const ALL: Seen = { tenant: null, owns: () => true, name: (stored) => stored, stored: (name) => name }

/** The view of a request's sender. */
export function seenBy({ tenant, access }: AnyCall): Seen {
  if (tenant === '' && access.allTenants) return ALL
  return {
    tenant,
    owns: (stored) => isOwn(tenant, stored),
    name: (stored) => (isOwn(tenant, stored) ? splitName(stored).name : stored),
    stored: (name) => ownName(tenant, name),
  }
}

/** Bounds a search for jobs to the queues that a caller sees. */
export function queuesSeen({ tenant }: Seen): { queuePrefix?: string; queueWithout?: string } {
  if (tenant === null) return {}
  return tenant === '' ? { queueWithout: '/' } : { queuePrefix: `${tenant}/` }
}

/** Whether a caller sees a limit: its own, or one that all tenants share. */
export function seesLimit(call: AnyCall, stored: string): boolean {
  return seenBy(call).owns(stored) || call.server.limits.isShared(stored)
}

/** The stored name of a limit that a call names. @throws {Refusal} 404 if the caller cannot see it */
export function storedLimit(call: AnyCall, name: string): string {
  const seen = seenBy(call)
  const stored = seen.tenant === null ? name : call.server.limits.storedName(seen.tenant, name)
  // A tenant's name with a slash would be another tenant's.
  if (!seesLimit(call, stored)) throw notFound('limit', name)
  return stored
}

/** The only key of a limit that the caller sees, where all tenants share the limit; null: it sees every key. */
export function onlyKey(call: AnyCall, stored: string): string | null {
  const { limits } = call.server
  const { tenant } = seenBy(call)
  return tenant !== null && tenant !== '' && limits.isShared(stored) && limits.isKeyed(stored) ? tenant : null
}

/** Whether the caller sees this key of a limit. */
export function seesKey(call: AnyCall, stored: string, key: string | null): boolean {
  const only = onlyKey(call, stored)
  return only === null || only === key
}

/** Refuses a change of a limit that all tenants share by one of them. @throws {Refusal} 403 */
export function requireOwnLimit(call: AnyCall, stored: string): void {
  const { tenant } = seenBy(call)
  if (tenant !== null && tenant !== '' && call.server.limits.isShared(stored)) throw sharedByAll(stored)
}
