import { z } from 'zod'
import { quote } from '../base/options.ts'
import { type Access, type Gate, requireRight } from './access.ts'
import { refuseForged, refusePages } from './browser.ts'
import { checked } from './checked.ts'
import { addressOf } from './incoming.ts'
import type { Call, Operation, Reply } from './operation.ts'
import { PushGate } from './push-gate.ts'
import { readBody } from './read-body.ts'
import type { RequestBudget } from './request-budget.ts'
import { invalid, Refusal, refusalOf } from './refusal.ts'
import type { Server } from './server.ts'
import { checkTenant, splitName } from './tenant.ts'

const MEDIA_TYPE = 'application/openjobspec+json'
const VERSION = '1.0'
/** Every 1.x, release candidates included. */
const VERSIONS = /^1(\.\d+){0,2}(-[0-9A-Za-z.-]+)?$/
const REQUEST_ID = /^[\x21-\x7E]{1,128}$/
/** The query of a change that declares none. */
const NO_QUERY = z.object({})
/** The access of a request without a token. */
const OPEN: Access = {
  name: 'nobody',
  scopes: new Set(),
  tenant: null,
  allTenants: false,
  mayName: () => false,
  queues: [],
  everywhere: false,
  onlyQueue: null,
}

/** The parts that a handler works with. */
export interface HandlerOptions {
  readonly server: Server
  readonly access: Gate
  /** Returns whether a host name is the server's, while it has no tokens; null: any is. */
  readonly isHost: ((host: string) => boolean) | null
  /** Null: requests are not limited. */
  readonly requests: RequestBudget | null
  readonly maxBodyBytes: number
}

/** Takes a request through its checks to its operation, and turns its reply or refusal into a response. */
export class Handler {
  readonly #options: HandlerOptions
  readonly #gate = new PushGate()

  constructor(options: HandlerOptions) {
    this.#options = options
  }

  /** Answers a request by its operation. */
  handle(request: Request, operation: Operation, params: Record<string, string>): Promise<Response> {
    return this.#answer(request, operation, (entry) => this.#run(request, operation, params, entry))
  }

  /** Answers a request at a path that does not serve its method. */
  elsewhere(request: Request, path: string, served: readonly string[]): Promise<Response> {
    return this.#answer(request, undefined, async () => unserved(request.method, path, served))
  }

  async #answer(
    request: Request,
    operation: Operation | undefined,
    run: (entry: LogEntry) => Promise<Reply>,
  ): Promise<Response> {
    const { clock, logger, newId, ready } = this.#options.server
    const beganUs = clock.monotonicUs()
    const named = request.headers.get('x-request-id')
    const requestId = named !== null && REQUEST_ID.test(named) ? named : `req_${newId()}`
    const entry: LogEntry = { requestId }
    let reply: Reply
    try {
      reply = await run(entry)
    } catch (error) {
      const refusal = refusalOf(error, operation?.method === 'GET')
      if (refusal.status >= 500) this.#options.server.metrics.failed(error)
      if (refusal.status >= 500) logger.error({ err: error, requestId }, 'a request could not be served')
      const { headers } = refusal.details
      reply = { status: refusal.status, body: refusal.body(requestId), ...(headers && { headers }) }
    }
    const ms = (clock.monotonicUs() - beganUs) / 1000
    const { method } = request
    const fields = { ...entry, method, operation: operation?.name, status: reply.status, ms }
    if (operation?.probe && reply.status < 500) logger.debug(fields, 'request')
    else logger.info(fields, 'request')
    const mediaType = operation?.api === 'monitor' ? 'application/json' : MEDIA_TYPE
    return responseOf(reply, requestId, { head: request.method === 'HEAD', last: !ready(), mediaType })
  }

  async #run(request: Request, operation: Operation, params: Record<string, string>, entry: LogEntry): Promise<Reply> {
    const { server, requests } = this.#options
    const { headers } = request
    const version = headers.get('ojs-version')
    if (version !== null && !VERSIONS.test(version))
      throw new Refusal(
        422,
        'unsupported',
        `OJS-Version is invalid: ${quote(version)}. Expected any 1.x; this server implements ${VERSION}.`,
      )
    const open = operation.right.scope === null
    if (!open && this.#options.access.open) refusePages(request, this.#options.isHost)
    const again = async (): Promise<Access> => this.#options.access.of(request)
    const access = open ? OPEN : await again()
    if (!open) entry.token = access.name
    if (!open) requireRight(access, operation.right)
    if (operation.api === 'monitor') refuseForged(request)
    const left = open ? {} : requests?.take(access)
    const tenant = tenantOf(access, headers.get('x-ojs-tenant'))
    if (tenant !== '') entry.tenant = tenant
    const changes = operation.method !== 'GET'
    const body = changes ? await this.#body(request) : undefined
    const concerned = new Set<string | null>([tenant])
    const call: Call<unknown, unknown, unknown> = {
      server,
      params: checked(operation.params, params, 'path'),
      // A filter of a change must not be dropped: the change would reach more.
      query: checked(operation.query ?? (changes ? NO_QUERY : null), queryOf(request, operation), 'query', changes),
      body: checked(operation.body, body, 'body'),
      tenant,
      access,
      again,
      search: () => new URL(request.url).searchParams,
      concerns: (stored) => void concerned.add(stored === null ? null : splitName(stored).tenant),
      gone: () => request.signal,
      header: (name) => headers.get(name),
      requestId: entry.requestId,
    }
    const run = (): Promise<Reply> => operation.run(call as Call<never, never, never>)
    const { scope } = operation.right
    const gate = this.#gate
    const reply = await (scope === 'producer' ? gate.push(run) : scope === 'worker' ? gate.work(run) : run())
    if (operation.right.audited && changes && reply.status < 400 && !reply.unchanged)
      await server.auditor.record({
        who: access.name,
        tenant,
        action: operation.name.replace(/_at_.*$/, ''),
        subject: new URL(request.url).pathname,
        requestId: entry.requestId,
        from: addressOf(request),
        reason: reasonIn(body) ?? reasonIn(call.query),
        request: body,
      })
    if (operation.right.audited && changes) server.monitor.changes.noteAll(concerned)
    return { ...reply, headers: { ...left, ...reply.headers } }
  }

  #body(request: Request): Promise<unknown> {
    const { access, maxBodyBytes } = this.#options
    return readBody(request, { maxBytes: maxBodyBytes, strict: access.open })
  }
}

/** The log entry of a request, filled in step by step. */
interface LogEntry {
  readonly requestId: string
  token?: string
  tenant?: string
}

/** A token of one tenant acts for that tenant only. */
function tenantOf(access: Access, header: string | null): string {
  const tenant = checkTenant(header)
  if (access.tenant === null) return tenant
  if (tenant === '' || tenant === access.tenant) return access.tenant
  throw new Refusal(403, 'permission_denied', `The token may not act for the tenant ${tenant}.`)
}

function reasonIn(part: unknown): string | null {
  const { reason } = Object(part) as { readonly reason?: unknown }
  return typeof reason === 'string' ? reason : null
}

/** The parameters of a request. @throws {Refusal} 400 for one that is there twice, of which the last alone would count */
function queryOf({ url }: Request, { repeats }: Operation): Record<string, string> {
  // To parse a URL costs more than the other checks of a push.
  if (!url.includes('?')) return {}
  const found = new Map<string, string>()
  for (const [name, value] of new URL(url).searchParams) {
    if (found.has(name) && !repeats.includes(name))
      throw invalid(`The query has ${quote(name)} twice. Expected it once.`)
    found.set(name, value)
  }
  return Object.fromEntries(found)
}

/** Makes the reply for a path or method without an operation. @throws {Refusal} 404, 405 */
function unserved(method: string, path: string, served: readonly string[]): Reply {
  const shown = `${method} ${path.slice(0, 200)}`
  if (served.length === 0) throw new Refusal(404, 'not_found', `The path ${shown} does not exist.`)
  const headers = { Allow: [...served, ...(served.includes('GET') ? ['HEAD'] : []), 'OPTIONS'].join(', ') }
  if (method === 'OPTIONS') return { status: 204, body: null, headers }
  throw new Refusal(405, 'x_method_not_allowed', `${shown} is not supported. Expected ${headers.Allow}.`, { headers })
}

/** True for a body that is text, such as metrics. */
function isText(mediaType = ''): boolean {
  return mediaType.startsWith('text/plain') || mediaType.startsWith('application/openmetrics-text')
}

function responseOf(
  { status, body, headers }: Reply,
  requestId: string,
  { head, last, mediaType }: { readonly head: boolean; readonly last: boolean; readonly mediaType: string },
): Response {
  const raw = body === null || body instanceof ReadableStream || isText(headers?.['Content-Type'])
  const content = raw ? (body as string | ReadableStream | null) : JSON.stringify(body)
  // HEAD has no reader for the stream, so its listener ends now.
  if (head && content instanceof ReadableStream) void content.cancel()
  // A plain object instead of Headers: the adapter writes it unchanged.
  const all = {
    // A 204 has no body, and so no content type.
    ...(status !== 204 && { 'Content-Type': mediaType }),
    'OJS-Version': VERSION,
    'X-Request-Id': requestId,
    // A stopping server does not wait for clients to close their connections.
    ...(last && { Connection: 'close' }),
    ...(head && typeof content === 'string' && { 'Content-Length': String(Buffer.byteLength(content)) }),
    ...headers,
  }
  return new Response(head ? null : content, { status, headers: all })
}
