import { invalid } from './refusal.ts'

/** Queue names hold no slash, so what stands before the last one is the tenant. */
const SEPARATOR = '/'
const TENANT = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/

/** Whether a text can be the name of a tenant. */
export function isTenant(text: string): boolean {
  return TENANT.test(text)
}

/** Checks a tenant as it was sent; empty: none. */
export function checkTenant(given: string | null): string {
  if (given === null || given === '') return ''
  if (isTenant(given)) return given
  throw invalid('X-OJS-Tenant has to be 1 to 128 letters, digits, dots, colons, hyphens and underscores.')
}

/** A name of a tenant as the store has it: no two tenants share a queue, a limit, a worker or a schedule. */
export function ownName(tenant: string, name: string): string {
  return tenant === '' ? name : `${tenant}${SEPARATOR}${name}`
}

/** The tenant of a stored name, and the name that it knows. */
export function splitName(stored: string): { readonly tenant: string; readonly name: string } {
  const at = stored.lastIndexOf(SEPARATOR)
  return at < 0 ? { tenant: '', name: stored } : { tenant: stored.slice(0, at), name: stored.slice(at + 1) }
}

/** Whether a stored name is this tenant's. */
export function isOwn(tenant: string, stored: string): boolean {
  return splitName(stored).tenant === tenant
}
