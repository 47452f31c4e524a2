import { type Access, requireScope, type Scope } from './access.ts'
import { checked } from './checked.ts'
import type { Call, Operation, Reply } from './operation.ts'
import { readBody } from './read-body.ts'
import type { RequestBudget } from './request-budget.ts'
import { Refusal, refusalOf } from './refusal.ts'
import type { Server } from './server.ts'
import { checkTenant } from './tenant.ts'

const MEDIA_TYPE = 'application/openjobspec+json'
const VERSION = '1.0'
const REQUEST_ID = /^[\x21-\x7E]{1,128}$/
/** What may be asked without a token. */
const OPEN: Access = {
  name: 'nobody',
  scopes: new Set<Scope>(),
  tenant: null,
  mayName: () => false,
  everywhere: false,
}

/** What a handler works with. */
export interface HandlerOptions {
  readonly server: Server
  /** What a request may do, by its header. @throws Refusal 401 */
  readonly access: (authorization: string | null) => Access
  /** Null: as many as they like. */
  readonly requests: RequestBudget | null
  readonly maxBodyBytes: number
  /** Aborted when the server is closed. */
  readonly closing: AbortSignal
}

/** Takes a request through its checks to its operation, and its reply or refusal to a response. */
export class Handler {
  readonly #options: HandlerOptions

  constructor(options: HandlerOptions) {
    this.#options = options
  }

  async handle(request: Request, operation: Operation | null, params: Record<string, string>): Promise<Response> {
    const { clock, logger, newId } = this.#options.server
    const beganUs = clock.monotonicUs()
    const given = request.headers.get('x-request-id')
    const requestId = given !== null && REQUEST_ID.test(given) ? given : `req_${newId()}`
    let reply: Reply
    try {
      reply = await this.#run(request, operation, params, requestId)
    } catch (error) {
      const refusal = refusalOf(error)
      if (refusal.status >= 500) logger.error({ err: error, requestId }, 'a request could not be served')
      reply = {
        status: refusal.status,
        body: refusal.body(requestId),
        ...(refusal.facts.headers && { headers: refusal.facts.headers }),
      }
    }
    const ms = (clock.monotonicUs() - beganUs) / 1000
    logger.info({ requestId, method: request.method, operation: operation?.name, status: reply.status, ms }, 'request')
    return responseOf(reply, requestId)
  }

  async #run(
    request: Request,
    operation: Operation | null,
    params: Record<string, string>,
    requestId: string,
  ): Promise<Reply> {
    const { server, requests, maxBodyBytes, closing } = this.#options
    const url = new URL(request.url)
    if (!operation)
      throw new Refusal(404, 'not_found', `There is nothing at ${request.method} ${url.pathname.slice(0, 200)}.`)
    const { headers } = request
    const version = headers.get('ojs-version')
    if (version !== null && version !== VERSION && version !== '1')
      throw new Refusal(422, 'unsupported', `This server speaks the Open Job Spec ${VERSION} and no other version.`)
    const access = operation.scope === null ? OPEN : this.#options.access(headers.get('authorization'))
    if (operation.scope !== null) requireScope(access, operation.scope)
    const left = operation.scope === null ? {} : requests?.take(access)
    const tenant = tenantOf(access, headers.get('x-ojs-tenant'))
    const body = request.method === 'GET' ? undefined : await readBody(request, maxBodyBytes)
    const call: Call<unknown, unknown, unknown> = {
      server,
      params: checked(operation.params, params, 'path'),
      query: checked(operation.query, Object.fromEntries(url.searchParams), 'query'),
      body: checked(operation.body, body, 'body'),
      tenant,
      access,
      headers,
      signal: AbortSignal.any([request.signal, closing]),
      requestId,
    }
    const reply = await operation.run(call as Call<never, never, never>)
    return { ...reply, headers: { ...left, ...reply.headers } }
  }
}

/** A token of one tenant speaks for that one alone. */
function tenantOf(access: Access, header: string | null): string {
  const given = checkTenant(header)
  if (access.tenant === null) return given
  if (given === '' || given === access.tenant) return access.tenant
  throw new Refusal(403, 'permission_denied', `The token may not speak for the tenant ${given}.`)
}

function responseOf({ status, body, headers }: Reply, requestId: string): Response {
  const all = new Headers({ 'Content-Type': MEDIA_TYPE, 'OJS-Version': VERSION, 'X-Request-Id': requestId })
  for (const [name, value] of Object.entries(headers ?? {})) all.set(name, value)
  // A status of 204 has no body, and so no type of one.
  if (status === 204) all.delete('Content-Type')
  const raw = body === null || body instanceof ReadableStream || all.get('Content-Type') === 'text/plain'
  return new Response(raw ? (body as string | ReadableStream | null) : JSON.stringify(body), { status, headers: all })
}
