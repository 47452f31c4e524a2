import { timingSafeEqual } from 'node:crypto'
import { Refusal } from './refusal.ts'
import type { Right } from './rights.ts'
import { checkToken, type CheckedToken, type Scope, type Token } from './token.ts'

/** The rights of one request. */
export interface Access {
  /** Shown in the log and in the audit table. */
  readonly name: string
  /** All scopes, with those that they imply. */
  readonly scopes: ReadonlySet<Scope>
  /** Null: the header decides. */
  readonly tenant: string | null
  /** Without a tenant it sees the things of all tenants, by their stored names. */
  readonly allTenants: boolean
  mayName(queue: string): boolean
  /** The queues that it may name; one that ends with `*` stands for all with that beginning. */
  readonly queues: readonly string[]
  /** Every queue is open to it. */
  readonly everywhere: boolean
  /** The one queue that the token names, if it names exactly one. */
  readonly onlyQueue: string | null
}

/** Finds out who sends a request. */
export interface Gate {
  /** There are no tokens: every caller has full access. */
  readonly open: boolean
  /** @throws {Refusal} 401 */
  of(request: Request): Access | Promise<Access>
}

/** The rights of callers, by the header of a request. */
export interface AccessList {
  /** There are no tokens: every caller has full access. */
  readonly open: boolean
  /** @throws {Refusal} 401 */
  of(authorization: string | null): Access
  /** Replaces the tokens. An invalid list leaves the old ones in place. @throws {SluiceError} `option.invalid` */
  replace(tokens: readonly Token[] | undefined): void
  /** The names of the tokens. */
  readonly names: readonly string[]
  /** Warnings for the author of the tokens. They are not errors. */
  readonly warnings: readonly string[]
}

interface Known {
  readonly checked: CheckedToken
  readonly access: Access
}

const ANYBODY: Access = {
  name: 'anybody',
  scopes: new Set<Scope>(['producer', 'worker', 'reader', 'operator', 'admin']),
  tenant: null,
  allTenants: true,
  mayName: () => true,
  queues: ['*'],
  everywhere: true,
  onlyQueue: null,
}

/**
 * Makes the list of tokens of a server. Without tokens every caller has full access.
 * @param nowMs wall clock: a token counts until it expires
 * @throws {SluiceError} `option.invalid`
 */
export function createAccess(tokens: readonly Token[] | undefined, nowMs: () => number): AccessList {
  let known = listOf(tokens ?? [], [])
  return {
    of: (authorization) => (known.length === 0 ? ANYBODY : accessIn(known, authorization, nowMs())),
    get open() {
      return known.length === 0
    },
    replace(next) {
      known = listOf(next ?? [], known)
    },
    get names() {
      return known.map(({ checked }) => checked.name)
    },
    get warnings() {
      return known.flatMap(({ checked }) => warningsOf(checked, nowMs()))
    },
  }
}

/** Checks that a token has a right. @throws {Refusal} 403 */
export function requireRight(access: Access, { scope, reach }: Right): void {
  if (scope !== null && !access.scopes.has(scope))
    throw denied(`The token lacks the scope ${scope}, which this operation needs.`)
  if (reach === 'queue') return
  if (!access.everywhere)
    throw denied('The token is restricted to its queues. This operation needs a token of all queues.')
  if (reach === 'server' && access.tenant !== null)
    throw denied('The token belongs to one tenant. This operation needs a token of the tenant "*".')
}

/** Checks that a token may name a queue. @throws {Refusal} 403 */
export function requireQueue(access: Access, queue: string): void {
  if (!access.mayName(queue)) throw denied(`The token may not use the queue ${queue}.`)
}

/** Makes the refusal of a right that the token lacks. */
export function denied(message: string): Refusal {
  return new Refusal(403, 'permission_denied', message)
}

/** Makes the refusal of a tenant's change to a limit that all tenants share. */
export function sharedByAll(limit: string): Refusal {
  return denied(`All tenants share the limit ${limit}. Change it with a request without a tenant.`)
}

function listOf(tokens: readonly Token[], before: readonly Known[]): Known[] {
  const known: Known[] = []
  for (const token of tokens) {
    const checked = checkToken(
      token,
      known.map((each) => each.checked),
    )
    // The same token keeps its request budget.
    const same = before.find((each) => JSON.stringify(each.checked.token) === JSON.stringify(token))
    known.push(same ?? { checked, access: accessOf(checked) })
  }
  return known
}

function accessIn(known: readonly Known[], authorization: string | null, nowMs: number): Access {
  const bearer = /^Bearer +(\S+)$/i.exec(authorization ?? '')?.[1]
  if (bearer === undefined) throw unauthenticated('The request carries no bearer token.', 'Bearer')
  const digest = known[0]?.checked.digestOf(bearer)
  let found: Known | null = null
  // Every token is compared, by digests of equal length, so the time taken reveals nothing about a token.
  for (const each of known) if (digest && timingSafeEqual(each.checked.digest, digest)) found = each
  if (!found) throw unauthenticated('The bearer token is unknown to this server.', 'Bearer error="invalid_token"')
  const { expiresMs } = found.checked
  if (expiresMs !== null && expiresMs <= nowMs)
    throw unauthenticated('The bearer token has expired.', 'Bearer error="invalid_token"')
  return found.access
}

function unauthenticated(message: string, challenge: string): Refusal {
  return new Refusal(401, 'unauthenticated', message, { headers: { 'WWW-Authenticate': challenge } })
}

function accessOf({ name, scopes, queues, tenant }: CheckedToken): Access {
  const [only] = queues
  return {
    name,
    scopes,
    tenant,
    allTenants: tenant === null && scopes.has('admin'),
    queues,
    everywhere: queues.includes('*'),
    onlyQueue: queues.length === 1 && only !== undefined && !only.endsWith('*') ? only : null,
    mayName: (queue) =>
      queues.some((each) => (each.endsWith('*') ? queue.startsWith(each.slice(0, -1)) : each === queue)),
  }
}

function warningsOf({ name, token, expiresMs }: CheckedToken, nowMs: number): string[] {
  return [
    ...(token.scopes.includes('client')
      ? [`The token ${name} has the old scope client. Replace it by producer and reader.`]
      : []),
    ...(expiresMs !== null && expiresMs <= nowMs ? [`The token ${name} has expired, so the server refuses it.`] : []),
  ]
}
