import { apiBase } from '../app/mount.ts'
import { setServerTime } from '../ui/clock.ts'

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

export type Query = Readonly<Record<string, string | number | undefined>>

/** A path with its query; members without a value are left out. */
export function urlOf(path: string, query: Query = {}): string {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query))
    if (value !== undefined && value !== '') search.set(name, String(value))
  const text = search.toString()
  return `${apiBase}${path}${text === '' ? '' : `?${text}`}`
}

/** A key of a limit in a path: `~` is the bucket without a key. */
export function keyPath(key: string | null): string {
  return key === null ? '~' : encodeURIComponent(key.startsWith('~') ? `~${key}` : key)
}

/** The key that a path names, as `keyPath` wrote it. */
export function keyOf(path: string): string | null {
  return path === '~' ? null : path.startsWith('~~') ? path.slice(1) : path
}

interface ErrorBody {
  readonly error?: { readonly code?: string; readonly message?: string; readonly hint?: string }
}

/** Calls the API. @throws {ApiError} with status 0 where no server answered */
export async function call<T>(
  method: string,
  path: string,
  { query, body, signal }: { readonly query?: Query; readonly body?: unknown; readonly signal?: AbortSignal } = {},
): Promise<T> {
  let response: Response
  try {
    response = await fetch(urlOf(path, query), {
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

export const get = <T>(path: string, query?: Query, signal?: AbortSignal): Promise<T> =>
  call<T>('GET', path, { ...(query && { query }), ...(signal && { signal }) })

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
