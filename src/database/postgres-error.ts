/** The meaning of `pg` errors: which allow a retry, and how callers see them. */
import { SluiceError } from '../base/errors.ts'
import { messageOf } from '../base/thrown.ts'

/**
 * PostgreSQL's code of an error, as in `23505`, also of an error that Sluice wrapped; undefined for any other error.
 */
export function codeOf(error: unknown): string | undefined {
  if (error instanceof SluiceError) return error.code === 'store.io' ? codeOf(error.cause) : undefined
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}

/** The connection is lost or refused, or the server shuts down, is full or read-only. Every call fails with it now. */
const OF_ALL = /^(08|28|57P|E[A-Z]+$|25006$|25P03$|3D000$|53100$|53300$|53400$|55000$|58030$)/
/** Deadlocks, exhausted resources, locks, cancelled statements and system errors may pass too. */
const PASSING = /^(40|53|55006$|55P03$|57014$|58)/

/** Whether the failure's cause affects every other call now. */
export function concernsAll(error: unknown): boolean {
  if (!(error instanceof SluiceError) || error.code !== 'store.io') return false
  return isLost(error.cause) || OF_ALL.test(codeOf(error.cause) ?? '')
}

/** Whether a call failed because the server was unreachable, so that it may be repeated. */
export function wasLost(error: unknown): boolean {
  return error instanceof SluiceError && error.code === 'store.io' && isLost(error.cause)
}

/**
 * Whether the server undid a call that may succeed at once when it is made again: after a deadlock, a serialisation
 * failure, or an upgrade that replaced a function while the call waited for it.
 */
export function mayRepeat(error: unknown): boolean {
  const code = codeOf(error) ?? ''
  return (
    /^(40P01|40001|42883)$/.test(code) || (code === 'XX000' && /cache lookup failed/.test((error as Error).message))
  )
}

/** Whether the connection itself is lost, or the server shuts down. */
export function isLost(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const code = codeOf(error)
  if (code === undefined)
    return /terminated|timeout exceeded when trying to connect|timeout expired|not queryable/.test(error.message)
  return /^(08|57P|25P03|E[A-Z]+$)/.test(code)
}

/**
 * Wraps a failed call for its caller: `store.io`, with the error of `pg` as the cause. Errors from neither the server
 * nor the connection stay as they are.
 * @param readOnlyLasts whether a server that only reads is to stay so
 */
export function wrapError(error: unknown, readOnlyLasts = false): unknown {
  if (error instanceof SluiceError || !(error instanceof Error)) return error
  if (error.message.includes('statement pooling mode'))
    return ioError(
      `PostgreSQL refused a statement of the store: ${messageOf(error)}. Give the address of a pooler in transaction or session mode.`,
      error,
      false,
    )
  if (isLost(error))
    return ioError(
      `The connection to PostgreSQL was lost: ${messageOf(error)}. The last calls may or may not be stored. Safe ones are tried again.`,
      error,
    )
  if (!('severity' in error)) return error
  const code = codeOf(error) ?? ''
  const remedy = REMEDIES[code] ?? "The store kept nothing of this call. See the server's log."
  return ioError(
    `PostgreSQL refused a statement of the store: ${messageOf(error)} (${code}). ${remedy}`,
    error,
    (OF_ALL.test(code) || PASSING.test(code)) && !(readOnlyLasts && code === '25006'),
  )
}

const REMEDIES: Readonly<Record<string, string>> = {
  '42501': 'Grant the right to the role of the address, or run sluice migrate with a role that has it.',
  '25006': 'Give the address of a server that is no standby, and of a role that may write.',
}

/** Wraps a failure to connect for callers. @param where the URL without its password, or a description */
export function connectError(where: string, error: unknown): unknown {
  if (error instanceof SluiceError || !(error instanceof Error)) return error
  return ioError(`No connection to PostgreSQL at ${where}: ${messageOf(error)}. ${remedyOf(error)}`, error)
}

/** The address as it may be shown: `user@host:port/database`. */
export function shownAddress(url: string): string {
  const { username, hostname, port, pathname } = new URL(url)
  return `${username === '' ? '' : `${username}@`}${hostname}:${port === '' ? '5432' : port}${pathname}`
}

function remedyOf(error: Error): string {
  const code = codeOf(error) ?? ''
  if (error.message.includes('no PostgreSQL user name')) return 'Name a user: postgres://user@host:5432/database.'
  if (error.message.includes('no encryption'))
    return "Encrypt the connection by sslmode= in the address, or allow the user in the server's pg_hba.conf."
  if (error.message.includes('not support SSL')) return 'Correct sslmode= of the address, or enable ssl at the server.'
  if (/CERT|VERIFY/.test(code))
    return "Give the certificate of the server's authority by sslrootcert= in the address, and the host as the server's certificate names it."
  if (/^ERR_(OSSL|SSL)/.test(code) || / open '|:SSL routines:|client certificate/.test(error.message))
    return 'Correct the files of sslrootcert=, sslcert= and sslkey= in the address.'
  if (code.startsWith('28') || /SASL|password/.test(error.message))
    return "Correct the user or the password of the address, or allow the user in the server's pg_hba.conf."
  if (code === '3D000') return 'Create the database, or correct its name in the address.'
  if (code === '53300') return "Lower connections in the address, or raise the server's max_connections."
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') return 'Correct the host in the address.'
  return 'Start the server, or correct the address.'
}

function ioError(message: string, cause: Error, passes = true): SluiceError {
  return new SluiceError('store.io', message, { cause, lasts: passes ? 'passes' : undefined })
}
