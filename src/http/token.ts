import { createHash } from 'node:crypto'
import { SluiceError } from '../base/errors.ts'
import { parseInstant } from '../base/instant.ts'
import { didYouMean } from '../base/nearest.ts'
import { isTenant } from './tenant.ts'

/**
 * The rights of a token. `producer` enqueues, schedules and cancels; `worker` fetches and settles; `reader` reads;
 * `operator` reads, pauses, retries and purges; `admin` has all rights, and defines limits, bounds and pools.
 */
export type Scope = 'producer' | 'worker' | 'reader' | 'operator' | 'admin'

/** A token that the server accepts. */
export interface Token {
  /** At least 16 characters without spaces. Set this or `hash`. */
  readonly token?: string
  /** The SHA-256 of the token, as `sha256:` and 64 hexadecimal digits, so that the configuration holds no secret. */
  readonly hash?: string
  /** The name in the log and in the audit table; default: the beginning of the token's digest. */
  readonly name?: string
  /** `client`, of old configurations, is `producer` and `reader`. */
  readonly scopes: readonly (Scope | 'client')[]
  /** Queues that it may name, or prefixes with `*` (`mail.*`); default: all. */
  readonly queues?: readonly string[]
  /** The tenant of the token: it sees no other. `*`: the header of a request names the tenant. */
  readonly tenant: string
  /** The token is refused from this instant on, by the wall clock; RFC 3339. Default: it never expires. */
  readonly expiresAt?: string
}

/** A token in the form that the server compares. */
export interface CheckedToken {
  readonly token: Token
  readonly name: string
  readonly digest: Buffer
  readonly scopes: ReadonlySet<Scope>
  readonly queues: readonly string[]
  readonly tenant: string | null
  readonly expiresMs: number | null
  readonly digestOf: (token: string) => Buffer
}

/** The scopes that each scope includes. */
const IMPLIED: Readonly<Record<Scope | 'client', readonly Scope[]>> = {
  producer: ['producer'],
  worker: ['worker'],
  reader: ['reader'],
  operator: ['operator', 'reader'],
  admin: ['producer', 'worker', 'reader', 'operator', 'admin'],
  client: ['producer', 'reader'],
}
const FIELDS: ReadonlySet<string> = new Set(['token', 'hash', 'name', 'scopes', 'queues', 'tenant', 'expiresAt'])
const SHORTEST_TOKEN = 16
const HASH = /^sha256:([0-9a-f]{64})$/i
const NAME = /^[\p{L}\p{N} ._:@-]{1,64}$/u
const QUEUE = /^(\*|[a-z0-9][a-z0-9.-]*\*?)$/

/**
 * Checks a token. @param before the tokens already read, which it must not repeat
 * @throws {SluiceError} `option.invalid`; the message never contains the token
 */
export function checkToken(token: Token, before: readonly CheckedToken[]): CheckedToken {
  if (typeof token !== 'object' || token === null)
    throw new SluiceError(
      'option.invalid',
      'A token of the server is invalid: not an object. Expected { token, scopes, tenant }.',
    )
  const { name: called, tenant } = token
  const wrong = (why: string): SluiceError =>
    new SluiceError(
      'option.invalid',
      `The token ${typeof called === 'string' ? called.slice(0, 64) : `number ${before.length + 1}`}: ${why}`,
    )
  for (const field of Object.keys(token)) if (!FIELDS.has(field)) throw wrong(unknownField(field))
  if (called !== undefined && (typeof called !== 'string' || !NAME.test(called)))
    throw wrong('its name is invalid. Expected 1 to 64 letters, digits, spaces and . _ : @ -')
  const digest = digestIn(token, wrong)
  const name = called ?? `token-${digest.toString('hex').slice(0, 8)}`
  const same = before.find((each) => each.digest.equals(digest))
  if (same) throw wrong(`it is the same token as ${same.name}. Expected different tokens.`)
  if (before.some((each) => each.name === name))
    throw wrong('another token has this name. Expected different names, which the log shows.')
  if (tenant === undefined) throw wrong('tenant is missing. Expected its tenant, or "tenant": "*" for all tenants.')
  if (typeof tenant !== 'string' || (tenant !== '*' && !isTenant(tenant)))
    throw wrong(
      'its tenant is invalid. Expected 1 to 128 letters, digits, dots, colons, hyphens and underscores, or "*" for all tenants.',
    )
  return {
    token,
    name,
    digest,
    digestOf,
    scopes: scopesIn(token, wrong),
    queues: queuesIn(token, wrong),
    tenant: tenant === '*' ? null : tenant,
    expiresMs: expiryIn(token, wrong),
  }
}

function unknownField(field: string): string {
  const hint = didYouMean(field, [...FIELDS])
  return `${field.slice(0, 64)} is unknown${hint}Expected ${[...FIELDS].join(', ')}.`
}

function digestIn({ token, hash }: Token, wrong: (why: string) => SluiceError): Buffer {
  if (token === undefined && hash === undefined) throw wrong('token and hash are missing. Expected one of them.')
  if (token !== undefined && hash !== undefined) throw wrong('token and hash exclude each other. Expected one of them.')
  if (hash !== undefined) {
    const hex = typeof hash === 'string' ? HASH.exec(hash)?.[1] : undefined
    if (hex === undefined) throw wrong('its hash is invalid. Expected sha256: and 64 hexadecimal digits.')
    return Buffer.from(hex, 'hex')
  }
  if (typeof token !== 'string' || token.length < SHORTEST_TOKEN || /\s/.test(token))
    throw wrong(
      `its token is invalid. Expected at least ${SHORTEST_TOKEN} characters without spaces, such as 32 random ones.`,
    )
  return digestOf(token)
}

function scopesIn({ scopes }: Token, wrong: (why: string) => SluiceError): ReadonlySet<Scope> {
  const listed: readonly string[] = scopes
  if (!Array.isArray(listed) || listed.length === 0 || !listed.every((each) => Object.hasOwn(IMPLIED, String(each))))
    throw wrong('its scopes is invalid. Expected a list of producer, worker, reader, operator and admin.')
  return new Set(scopes.flatMap((each) => IMPLIED[each]))
}

function queuesIn({ queues }: Token, wrong: (why: string) => SluiceError): readonly string[] {
  const listed: readonly unknown[] = Array.isArray(queues) ? queues : queues === undefined ? ['*'] : []
  const names = listed.filter((each): each is string => typeof each === 'string' && QUEUE.test(each))
  if (listed.length === 0 || names.length < listed.length)
    throw wrong('its queues is invalid. Expected a list of names, or prefixes with * such as mail.*.')
  return names
}

function expiryIn({ expiresAt }: Token, wrong: (why: string) => SluiceError): number | null {
  if (expiresAt === undefined) return null
  const ms = typeof expiresAt === 'string' ? parseInstant(expiresAt) : Number.NaN
  if (Number.isNaN(ms))
    throw wrong('its expiresAt is invalid. Expected an RFC 3339 time, such as 2027-01-31T00:00:00Z.')
  return ms
}

function digestOf(token: string): Buffer {
  return createHash('sha256').update(token).digest()
}
