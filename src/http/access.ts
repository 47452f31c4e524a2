import { timingSafeEqual } from 'node:crypto'
import { Refusal } from './refusal.ts'
import type { Right } from './rights.ts'
import { checkToken, type CheckedToken, type Scope, type Token } from './token.ts'

/** What one request may do. */
export interface Access {
  /** Shown in the log and in the audit table. */
  readonly name: string
  /** With all that they imply. */
  readonly scopes: ReadonlySet<Scope>
  /** Null: the header decides. */
  readonly tenant: string | null
  mayName(queue: string): boolean
  /** All queues are open to it. */
  readonly everywhere: boolean
  /** The one queue that it names, where it names exactly one. */
  readonly onlyQueue: string | null
}

/** Who may do what, by the header of a request. */
export interface AccessList {
  /** There are no tokens: everybody may do everything. */
  readonly open: boolean
  /** @throws Refusal 401 */
  of(authorization: string | null): Access
  /** Takes other tokens from now on; what cannot be leaves the old ones in place. @throws option.invalid */
  replace(tokens: readonly Token[] | undefined): void
  /** The names of the tokens. */
  readonly names: readonly string[]
  /** What to tell the person who wrote the tokens, beside errors. */
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
  mayName: () => true,
  everywhere: true,
  onlyQueue: null,
}

/**
 * Makes the list of tokens of a server; with no tokens at all everybody may do everything.
 * @param nowMs wall clock: a token counts until it expires
 * @throws option.invalid
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

/** Refuses what a token is not good for. @throws Refusal 403 */
export function requireRight(access: Access, { scope, reach }: Right): void {
  if (scope !== null && !access.scopes.has(scope))
    throw denied(`The token is not good for this: it needs the scope ${scope}.`)
  if (reach === 'queue') return
  if (!access.everywhere)
    throw denied('The token names its queues, and this concerns more than those: it needs a token of all queues.')
  if (reach === 'server' && access.tenant !== null)
    throw denied('The token is of one tenant, and this concerns all of them: it needs a token of the tenant "*".')
}

/** Refuses queues that a token may not name. @throws Refusal 403 */
export function requireQueue(access: Access, queue: string): void {
  if (!access.mayName(queue)) throw denied(`The token may not use the queue ${queue}.`)
}

/** A right that the token does not have. */
export function denied(message: string): Refusal {
  return new Refusal(403, 'permission_denied', message)
}

function listOf(tokens: readonly Token[], before: readonly Known[]): Known[] {
  const known: Known[] = []
  for (const token of tokens) {
    const checked = checkToken(
      token,
      known.map((each) => each.checked),
    )
    // The same token keeps its budget of requests.
    const same = before.find((each) => JSON.stringify(each.checked.token) === JSON.stringify(token))
    known.push(same ?? { checked, access: accessOf(checked) })
  }
  return known
}

function accessIn(known: readonly Known[], authorization: string | null, nowMs: number): Access {
  const given = /^Bearer +(\S+)$/i.exec(authorization ?? '')?.[1]
  if (given === undefined) throw unauthenticated('The request carries no bearer token.', 'Bearer')
  const digest = known[0]?.checked.digestOf(given)
  let found: Known | null = null
  // All are compared, and digests of one length: the time it takes tells nothing of a token.
  for (const each of known) if (digest && timingSafeEqual(each.checked.digest, digest)) found = each
  if (!found) throw unauthenticated('The bearer token is not known to this server.', 'Bearer error="invalid_token"')
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
    everywhere: queues.includes('*'),
    onlyQueue: queues.length === 1 && only !== undefined && !only.endsWith('*') ? only : null,
    mayName: (queue) =>
      queues.some((each) => (each.endsWith('*') ? queue.startsWith(each.slice(0, -1)) : each === queue)),
  }
}

function warningsOf({ name, token, expiresMs }: CheckedToken, nowMs: number): string[] {
  return [
    ...(token.scopes.includes('client')
      ? [`The token ${name} has the scope client of old configurations: write producer and reader.`]
      : []),
    ...(expiresMs !== null && expiresMs <= nowMs ? [`The token ${name} has expired: it is refused.`] : []),
  ]
}
