import type { Readable } from 'node:stream'

const INCOMING: unique symbol = Symbol('incoming')

/** A message of Node's server. */
interface Incoming extends Readable {
  readonly socket: { readonly remoteAddress?: string | undefined }
}

/** A request with the message that it came in: the Fetch API has no place for it. */
type Received = Request & { [INCOMING]?: Incoming }

/** Notes the message that a request came in. */
export function noteIncoming(request: Received, incoming: Incoming): void {
  request[INCOMING] = incoming
}

/** The address that a request came from; null: unknown. */
export function addressOf(request: Received): string | null {
  return request[INCOMING]?.socket.remoteAddress ?? null
}

/**
 * Takes the body of a request if all of it is here, as a short one mostly is: without a copy, a listener or a wait.
 * Null: the request has to be read.
 */
export function arrivedBody(request: Received, length: number): Buffer | null {
  const incoming = request[INCOMING]
  if (!incoming || length === 0 || incoming.readableDidRead || incoming.readableLength !== length) return null
  const body: unknown = incoming.read()
  // A stream ends once it is read to its end.
  incoming.resume()
  return Buffer.isBuffer(body) ? body : null
}
