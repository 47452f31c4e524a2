import { invalid } from './refusal.ts'

/** Queue names have no slash, so the tenant is the text before the last one. */
const SEPARATOR = '/'
const TENANT = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/

/** Returns whether a text can be the name of a tenant. */
export function isTenant(text: string): boolean {
  return TENANT.test(text)
}

/** Checks a tenant of a request; empty: none. */
export function checkTenant(header: string | null): string {
  if (header === null || header === '') return ''
  if (isTenant(header)) return header
  throw invalid('X-OJS-Tenant is invalid. Expected 1 to 128 letters, digits, dots, colons, hyphens and underscores.')
}

/** The stored name of a tenant's thing: no two tenants share a queue, a limit, a worker or a schedule. */
export function ownName(tenant: string, name: string): string {
  return tenant === '' ? name : `${tenant}${SEPARATOR}${name}`
}

/** The tenant of a stored name, and the tenant's own name of it. */
export function splitName(stored: string): { readonly tenant: string; readonly name: string } {
  const at = stored.lastIndexOf(SEPARATOR)
  return at < 0 ? { tenant: '', name: stored } : { tenant: stored.slice(0, at), name: stored.slice(at + 1) }
}

/** Returns whether a stored name belongs to this tenant. */
export function isOwn(tenant: string, stored: string): boolean {
  return splitName(stored).tenant === tenant
}
