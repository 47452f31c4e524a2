import { quote } from '../base/options.ts'
import { inexactNumber } from '../base/exact-numbers.ts'
import { outlineOf, repeatedName } from '../base/json-text.ts'
import { arrivedBody } from './incoming.ts'
import { invalid, Refusal } from './refusal.ts'

const DEEPEST = 100
const JSON_TYPES = /^application\/(openjobspec\+json|json)\s*(;|$)/i
const OTHER_CHARSETS = /;\s*charset\s*=(?!\s*"?(utf-?8|us-ascii)"?\s*(;|$))/i
const UTF8 = new TextDecoder('utf-8', { fatal: true })

/** The rules for reading a body. */
export interface BodyRules {
  readonly maxBytes: number
  /** Checks the content type even without a body: a web page may send some types to any server. */
  readonly strict: boolean
}

/**
 * Reads the JSON body of a request, up to a number of bytes.
 * @throws {Refusal} 400 for invalid JSON, a name given twice or the wrong content type, 413 for a body that is too large, 415 for a
 * compressed one, 422 for numbers that would change
 */
export async function readBody(request: Request, { maxBytes, strict }: BodyRules): Promise<unknown> {
  const type = request.headers.get('content-type')
  const encoding = request.headers.get('content-encoding')
  if (encoding !== null && encoding.trim().toLowerCase() !== 'identity')
    throw new Refusal(415, 'x_unsupported_media_type', 'The body is compressed. Send it without compression.', {
      headers: { 'Accept-Encoding': 'identity', Connection: 'close' },
    })
  const length = Number(request.headers.get('content-length') ?? 0)
  if (length > maxBytes) throw tooLarge(maxBytes)
  const text = await readText(request, length, maxBytes)
  if (text === '' && (type === null || !strict)) return undefined
  if (type === null || !JSON_TYPES.test(type))
    throw invalid(`The content type is invalid: ${quote(type ?? '')}. Expected application/openjobspec+json.`)
  if (OTHER_CHARSETS.test(type))
    throw invalid(`The charset of the content type is invalid: ${quote(type)}. Expected utf-8.`)
  if (text === '') return undefined
  const { depth, names } = outlineOf(text)
  if (depth > DEEPEST) throw new Refusal(400, 'invalid_payload', `The body is nested deeper than ${DEEPEST} levels.`)
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch {
    throw new Refusal(400, 'invalid_payload', 'The body is not valid JSON.')
  }
  const repeated = repeatedName(text, body, names)
  if (repeated) throw twice(repeated.join('.').slice(0, 200))
  const inexact = inexactNumber(text)
  if (inexact === null) return body
  const { path, message } = inexact
  throw new Refusal(422, 'invalid_request', `${path === '' ? '' : `${path}: `}${message}`, {
    type: 'validation_error',
    details: { issues: [inexact] },
  })
}

async function readText(request: Request, length: number, maxBytes: number): Promise<string> {
  let bytes = 0
  let text = ''
  try {
    const arrived = arrivedBody(request, length)
    if (arrived) return UTF8.decode(arrived)
    // A real HTTP server enforces Content-Length, so the body is read whole, without a web stream. An in-memory Request
    // may claim any length.
    if (request.headers.has('content-length') && !request.headers.has('transfer-encoding')) {
      const body = await request.arrayBuffer()
      if (body.byteLength > maxBytes) throw tooLarge(maxBytes)
      return UTF8.decode(body)
    }
    if (!request.body) return ''
    const decoder = new TextDecoder('utf-8', { fatal: true })
    for await (const chunk of request.body as unknown as AsyncIterable<Uint8Array>) {
      bytes += chunk.byteLength
      if (bytes > maxBytes) throw tooLarge(maxBytes)
      text += decoder.decode(chunk, { stream: true })
    }
    return text + decoder.decode()
  } catch (error) {
    if (error instanceof Refusal) throw error
    throw new Refusal(400, 'invalid_payload', 'The body is not complete UTF-8.')
  }
}

function twice(path: string): Refusal {
  const message = 'is there twice. Expected each name once.'
  return invalid(`${path} ${message}`, { details: { issues: [{ path, message }] } })
}

function tooLarge(maxBytes: number): Refusal {
  return new Refusal(413, 'x_payload_too_large', `The body is larger than ${maxBytes} bytes.`, {
    // The rest of the body stays unread, so the connection cannot serve another request.
    headers: { Connection: 'close' },
  })
}
