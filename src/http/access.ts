import { createHash, timingSafeEqual } from 'node:crypto'
import { SluiceError } from '../base/errors.ts'
import { Refusal } from './refusal.ts'

/** What a token is good for: to enqueue and look, to fetch and settle, to change how the server works. */
export type Scope = 'client' | 'worker' | 'admin'

/** A token that the server knows. */
export interface Token {
  /** At least 16 characters. */
  readonly token: string
  /** Named in logs. */
  readonly name?: string
  readonly scopes: readonly Scope[]
  /** Queues that it may name, or beginnings with `*` (`mail.*`); all by default. */
  readonly queues?: readonly string[]
  /** The tenant that it belongs to: it sees no other. By default the request's header decides. */
  readonly tenant?: string
}

/** What one request may do. */
export interface Access {
  readonly name: string
  readonly scopes: ReadonlySet<Scope>
  /** Null: the header decides. */
  readonly tenant: string | null
  mayName(queue: string): boolean
  /** All queues are open to it. */
  readonly everywhere: boolean
}

const ANYBODY: Access = {
  name: 'anybody',
  scopes: new Set<Scope>(['client', 'worker', 'admin']),
  tenant: null,
  mayName: () => true,
  everywhere: true,
}
const SHORTEST_TOKEN = 16
const SCOPES: ReadonlySet<string> = new Set(['client', 'worker', 'admin'])

/** Tells from the header of a request what it may do; with no tokens at all everybody may do everything. @throws option.invalid */
export function createAccess(tokens: readonly Token[] | undefined): (authorization: string | null) => Access {
  if (!tokens || tokens.length === 0) return () => ANYBODY
  const known = tokens.map((token) => ({ digest: digestOf(checkToken(token).token), access: accessOf(token) }))
  return (authorization) => {
    const given = /^Bearer +(\S+)$/i.exec(authorization ?? '')?.[1]
    if (given === undefined)
      throw new Refusal(401, 'unauthenticated', 'The request carries no bearer token.', {
        headers: { 'WWW-Authenticate': 'Bearer' },
      })
    const digest = digestOf(given)
    let found: Access | null = null
    // All are compared, and digests of one length: how long it takes tells nothing of a token.
    for (const each of known) if (timingSafeEqual(each.digest, digest)) found = each.access
    if (found) return found
    throw new Refusal(401, 'unauthenticated', 'The bearer token is not known to this server.', {
      headers: { 'WWW-Authenticate': 'Bearer error="invalid_token"' },
    })
  }
}

/** Refuses what a token is not good for. */
export function requireScope(access: Access, scope: Scope): void {
  if (access.scopes.has(scope) || access.scopes.has('admin')) return
  throw new Refusal(403, 'permission_denied', `The token is not good for this: it needs the scope ${scope}.`)
}

/** Refuses queues that a token may not name. */
export function requireQueue(access: Access, queue: string): void {
  if (access.mayName(queue)) return
  throw new Refusal(403, 'permission_denied', `The token may not use the queue ${queue}.`)
}

function accessOf({ name = 'a token', scopes, queues, tenant }: Token): Access {
  const allowed = queues ?? ['*']
  return {
    name,
    scopes: new Set(scopes),
    tenant: tenant ?? null,
    everywhere: allowed.includes('*'),
    mayName: (queue) =>
      allowed.some((each) => (each.endsWith('*') ? queue.startsWith(each.slice(0, -1)) : each === queue)),
  }
}

function checkToken(token: Token): Token {
  const wrong = (why: string): SluiceError => new SluiceError('option.invalid', `a token of the server: ${why}`)
  if (typeof token.token !== 'string' || token.token.length < SHORTEST_TOKEN || /\s/.test(token.token))
    throw wrong(`give at least ${SHORTEST_TOKEN} characters without spaces, such as 32 random ones`)
  const scopes: readonly string[] = token.scopes
  if (!Array.isArray(scopes) || scopes.length === 0 || !scopes.every((each: string) => SCOPES.has(each)))
    throw wrong(`scopes are any of ${[...SCOPES].join(', ')}`)
  if (token.queues !== undefined && !Array.isArray(token.queues)) throw wrong('queues is a list of names')
  return token
}

function digestOf(token: string): Buffer {
  return createHash('sha256').update(token).digest()
}
