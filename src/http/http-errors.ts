/**
 * Refusals of requests that fail before an operation. Refusals by HTTP itself have the error body of the Open Job
 * Spec too.
 */
import { STATUS_CODES, type ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { systemClock } from '../base/clock.ts'
import { createIds } from '../base/ids.ts'
import { Refusal } from './refusal.ts'

const newId = createIds(systemClock)

/** Makes the refusal of a request that is not valid HTTP. */
export function badRequest(message: string): Refusal {
  return new Refusal(400, 'invalid_request', message)
}

/** Makes the refusal of a header Expect that this server does not support. */
export function notExpected(): Refusal {
  return new Refusal(417, 'x_expectation_failed', 'The header Expect is not supported. Omit it.')
}

/** Turns a refusal into a response of the Fetch API. */
export function responseOf(refusal: Refusal): Response {
  const { headers, body } = textOf(refusal)
  return new Response(body, { status: refusal.status, headers })
}

/** Answers a request with a refusal, and ends its connection. */
export function refuse(response: ServerResponse, refusal: Refusal): void {
  const { headers, body } = textOf(refusal)
  response.writeHead(refusal.status, { ...headers, 'Content-Length': Buffer.byteLength(body) }).end(body)
}

/** Answers an unreadable request if it has no answer yet, and closes the connection. */
export function hangUp(error: Error & { readonly code?: string }, socket: Duplex): void {
  const { _httpMessage: begun } = socket as Duplex & { readonly _httpMessage?: { readonly headersSent: boolean } }
  if (!socket.writable || error.code === 'ECONNRESET' || begun?.headersSent) {
    socket.destroy(error)
    return
  }
  const refusal = refusalOf(error.code)
  const { headers, body } = textOf(refusal)
  const headerLines = Object.entries({ ...headers, 'Content-Length': String(Buffer.byteLength(body)) })
  const head = headerLines.map(([name, value]) => `${name}: ${value}`).join('\r\n')
  socket.end(`HTTP/1.1 ${refusal.status} ${STATUS_CODES[refusal.status]}\r\n${head}\r\n\r\n${body}`)
}

function refusalOf(code: string | undefined): Refusal {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT')
    return new Refusal(408, 'x_request_timeout', 'The request was not complete in time.', { retryable: true })
  if (code === 'HPE_HEADER_OVERFLOW')
    return new Refusal(431, 'x_headers_too_large', 'The headers of the request are too large.')
  if (code === 'HPE_CHUNK_EXTENSIONS_OVERFLOW')
    return new Refusal(413, 'x_payload_too_large', 'The extensions of a chunk are too large.')
  return badRequest('The request is not valid HTTP.')
}

function textOf(refusal: Refusal): { readonly headers: Record<string, string>; readonly body: string } {
  const requestId = `req_${newId()}`
  return {
    headers: {
      'Content-Type': 'application/openjobspec+json',
      'OJS-Version': '1.0',
      'X-Request-Id': requestId,
      Connection: 'close',
    },
    body: JSON.stringify(refusal.body(requestId)),
  }
}
