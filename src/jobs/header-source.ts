/** Reads headers by name: `Headers`, or any object with such a `get`. */
export interface HeaderSource {
  get(name: string): string | null | undefined
}

/**
 * Headers as HTTP clients give them: `Headers`, a `Map`, or a plain object such as `IncomingMessage.headers` of
 * node:http. Names may have any case; values may be numbers or lists.
 */
export type HeadersLike = HeaderSource | { readonly [name: string]: unknown }

/** The used parts of an API's answer. */
export interface Answer {
  readonly status: number
  readonly headers: HeadersLike
}

/**
 * Reads headers by name in any case; an absent header is null. It never throws, since a refusal with unreadable headers
 * still counts.
 */
export function headerSource(headers: unknown): HeaderSource {
  if (typeof headers !== 'object' || headers === null) return NONE
  if (headers instanceof Map) return byName([...(headers as ReadonlyMap<unknown, unknown>)])
  if ('get' in headers && typeof headers.get === 'function') {
    const source = headers as HeaderSource
    return { get: (name) => text(source.get(name)) }
  }
  return byName(Array.isArray(headers) ? pairs(headers) : Object.entries(headers))
}

const NONE: HeaderSource = { get: () => null }

/** `[[name, value], …]` as fetch takes them, or `[name, value, …]` as `rawHeaders` of node:http. */
function pairs(list: readonly unknown[]): [unknown, unknown][] {
  if (list.every((each) => Array.isArray(each))) return list.map(([name, value]): [unknown, unknown] => [name, value])
  return list.flatMap((name, i): [unknown, unknown][] => (i % 2 === 0 ? [[name, list[i + 1]]] : []))
}

function byName(entries: readonly (readonly [unknown, unknown])[]): HeaderSource {
  const values = new Map<string, string>()
  for (const [name, value] of entries) {
    const found = text(value)
    if (typeof name === 'string' && found !== null) values.set(name.toLowerCase(), found)
  }
  return { get: (name) => values.get(name.toLowerCase()) ?? null }
}

function text(value: unknown): string | null {
  if (typeof value === 'string') return value
  if (typeof value === 'number') return String(value)
  return Array.isArray(value) && value.length > 0 ? value.map(String).join(', ') : null
}
