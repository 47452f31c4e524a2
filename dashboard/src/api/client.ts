import { apiBase } from '../app/mount.ts'
import { setServerTime } from '../ui/clock.ts'
import type { paths } from './openapi.ts'
import type { Answer } from './types.ts'

/** A refusal of the monitor API, with the words that it gave. */
export class ApiError extends Error {
  readonly status: number
  readonly code: string
  readonly hint: string | undefined

  constructor(status: number, code: string, message: string, hint?: string) {
    super(message)
    this.status = status
    this.code = code
    this.hint = hint
  }
}

const TOKEN = 'sluice.token'

/** The token that the viewer gave; kept for this tab alone. */
export function token(): string | null {
  return sessionStorage.getItem(TOKEN)
}

export function setToken(value: string | null): void {
  if (value === null) sessionStorage.removeItem(TOKEN)
  else sessionStorage.setItem(TOKEN, value)
}

/** The headers of every request: who asks, and that no foreign page made it. */
export function requestHeaders(): Record<string, string> {
  const bearer = token()
  return {
    Accept: 'application/json',
    'X-Sluice-Request': '1',
    ...(bearer !== null && { Authorization: `Bearer ${bearer}` }),
  }
}

type Verb = 'get' | 'post' | 'put' | 'patch' | 'delete'

/** The parameters of an operation: the names in its path, its query and its body. */
type Given<Operation> = (Operation extends { readonly parameters: { readonly path: infer P } }
  ? { readonly params: P }
  : { readonly params?: undefined }) &
  (Operation extends { readonly parameters: { readonly query: infer Q } }
    ? { readonly query: Q }
    : Operation extends { readonly parameters: { readonly query?: infer Q } }
      ? { readonly query?: Q | undefined }
      : { readonly query?: undefined }) &
  (Operation extends { readonly requestBody: { readonly content: { readonly 'application/json': infer B } } }
    ? { readonly body: B }
    : Operation extends { readonly requestBody?: { readonly content: { readonly 'application/json': infer B } } }
      ? { readonly body?: B }
      : { readonly body?: undefined })

/** The operation of a method at a path. */
type At<P extends keyof paths, V extends Verb> = paths[P] extends { readonly [K in V]: infer Operation }
  ? Operation
  : never

/** Each operation of a method, with all that it takes. */
type CallOf<V extends Verb> = {
  [P in keyof paths]: [At<P, V>] extends [never]
    ? never
    : { readonly method: Uppercase<V>; readonly path: P } & Given<At<P, V>>
}[keyof paths]

/** One call that reads. */
export type Read = CallOf<'get'>
/** One call that changes something. */
export type Change = CallOf<'post'> | CallOf<'put'> | CallOf<'patch'> | CallOf<'delete'>

/** The paths at which the API is read. */
type ReadPath = Read['path']

/** Reads. @throws {ApiError} with status 0 where no server answered */
export function read<const P extends ReadPath>(
  path: P,
  given: Given<At<P, 'get'>>,
  signal: AbortSignal,
): Promise<Answer<At<P, 'get'>>> {
  return send({ method: 'GET', path, ...given } as Sent, signal)
}

/** Changes something. @throws {ApiError} with status 0 where no server answered */
export function change<T>(made: Change, signal?: AbortSignal): Promise<T> {
  return send(made as Sent, signal)
}

/** A key of a limit as a path names it: `~` is the bucket without a key. */
export function pathKey(key: string | null): string {
  return key === null ? '~' : key.startsWith('~') ? `~${key}` : key
}

/** The key that a path names, as `pathKey` wrote it. */
export function keyOf(path: string): string | null {
  return path === '~' ? null : path.startsWith('~~') ? path.slice(1) : path
}

/** A call as it is sent. */
interface Sent {
  readonly method: string
  readonly path: string
  readonly params?: Readonly<Record<string, string>>
  readonly query?: Readonly<Record<string, string | number | undefined>>
  readonly body?: unknown
}

/** The address of a path with its names filled in; members of the query without a value are left out. */
export function urlOf({ path, params = {}, query = {} }: Pick<Sent, 'path' | 'params' | 'query'>): string {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query))
    if (value !== undefined && value !== '') search.set(name, String(value))
  const text = search.toString()
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params[name] ?? ''))
  return `${apiBase}${filled}${text === '' ? '' : `?${text}`}`
}

interface ErrorBody {
  readonly error?: { readonly code?: string; readonly message?: string; readonly hint?: string }
}

async function send<T>(sent: Sent, signal?: AbortSignal): Promise<T> {
  const { method, body } = sent
  let response: Response
  try {
    response = await fetch(urlOf(sent), {
      method,
      headers: { ...requestHeaders(), ...(body !== undefined && { 'Content-Type': 'application/json' }) },
      body: body === undefined ? null : JSON.stringify(body),
      signal: signal ?? null,
      credentials: 'same-origin',
      cache: 'no-store',
    })
  } catch (error) {
    if (signal?.aborted) throw error
    throw new ApiError(0, 'connection.lost', 'The server does not answer.')
  }
  setServerTime(Date.parse(response.headers.get('date') ?? ''))
  const text = await response.text()
  const answer: unknown = parsed(text)
  if (response.ok) return answer as T
  const { error } = (answer ?? {}) as ErrorBody
  throw new ApiError(
    response.status,
    error?.code ?? `http.${response.status}`,
    error?.message ?? `The server answered ${response.status}.`,
    error?.hint,
  )
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
