import { SluiceError } from '../../base/errors.ts'
import { nearest } from '../../base/nearest.ts'
import { quote } from '../../base/options.ts'

/** The parts of a `postgres://` URL. */
export interface PostgresAddress {
  /** The URL for the driver, without the parameters of the store. */
  readonly connection: string
  readonly schema: string
  readonly connections: number
  readonly notify: boolean
}

/** Whether a URL is one of PostgreSQL. */
export function isPostgresUrl(url: unknown): url is string {
  return typeof url === 'string' && /^postgres(ql)?:\/\//.test(url)
}

/**
 * Reads `postgres://user@host:5432/database`. The store uses the parameters `schema` (default `sluice`), `connections`
 * (default 8) and `notify` (`false`: no LISTEN, as behind pgBouncer's transaction mode). The driver gets all others,
 * but for misspelt ones of these.
 * @throws {SluiceError} `store.url.invalid`
 */
export function readPostgresUrl(url: string): PostgresAddress {
  const parsed = parse(url)
  const schema = take(parsed, 'schema') ?? 'sluice'
  const connections = take(parsed, 'connections') ?? '8'
  const notify = take(parsed, 'notify') ?? 'true'
  const timeout = valueOf(parsed, 'connect_timeout') ?? '0'
  for (const name of parsed.searchParams.keys()) refuseMisspelt(name)
  if (!/^[a-z_][a-z0-9_]{0,62}$/.test(schema)) throw invalid('schema', schema, 'lower-case letters, digits and _')
  if (!isWhole(connections, 2, 1000)) throw invalid('connections', connections, 'a whole number from 2 to 1000')
  if (!isWhole(timeout, 0, 86_400)) throw invalid('connect_timeout', timeout, 'seconds, from 0 (the default) to 86400')
  if (notify !== 'true' && notify !== 'false') throw invalid('notify', notify, 'true or false')
  return { connection: parsed.toString(), schema, connections: Number(connections), notify: notify === 'true' }
}

function parse(url: string): URL {
  try {
    return new URL(url)
  } catch (cause) {
    throw new SluiceError(
      'store.url.invalid',
      'The postgres:// URL is invalid. Expected postgres://user:password@host:5432/database, with special characters escaped.',
      { cause },
    )
  }
}

/** Takes a parameter of the store out of the URL. */
function take(url: URL, name: string): string | null {
  const value = valueOf(url, name)
  url.searchParams.delete(name)
  return value
}

function valueOf(url: URL, name: string): string | null {
  const [value = null, ...more] = url.searchParams.getAll(name)
  if (more.length === 0) return value
  throw new SluiceError('store.url.invalid', `The store's URL has the parameter ${name} twice. Expected it once.`)
}

function isWhole(text: string, least: number, most: number): boolean {
  return /^\d{1,5}$/.test(text) && Number(text) >= least && Number(text) <= most
}

/** The driver would ignore a misspelt parameter: the store would be another one, or the connection not encrypted. */
function refuseMisspelt(name: string): void {
  const known = [...PARAMETERS, 'sslmode']
  const near = known.includes(name) ? null : nearest(name, known)
  if (near === null) return
  throw new SluiceError(
    'store.url.invalid',
    `The store's URL has the unknown parameter ${JSON.stringify(name)}; did you mean ${near}? Expected ${PARAMETERS.join(', ')}, or a parameter of pg.`,
  )
}

const PARAMETERS = ['schema', 'connections', 'notify', 'connect_timeout']

function invalid(name: string, value: string, allowed: string): SluiceError {
  return new SluiceError(
    'store.url.invalid',
    `The parameter ${name} of the store's URL is invalid: ${quote(value)}. Expected ${allowed}.`,
  )
}
