import { remoteOf } from '../remote/remote.ts'
import { Hono } from 'hono'
import { readFileSync } from 'node:fs'
import { systemClock } from '../base/clock.ts'
import { createIds } from '../base/ids.ts'
import { silentLogger } from '../base/logger.ts'
import { createAccess } from './access.ts'
import { Auditor } from './auditor.ts'
import { boundsOf } from './bounds.ts'
import { EventLog } from './event-log.ts'
import { Handler } from './handler.ts'
import { HeldOpen } from './held-open.ts'
import { LimitRules } from './limit-rules.ts'
import { openApi } from './open-api.ts'
import type { Operation } from './operation.ts'
import { QueueCounts } from './queue-counts.ts'
import { redefine, reload, type Reload } from './reload.ts'
import { RequestBudget } from './request-budget.ts'
import { checkHttpOptions, type HttpOptions } from './http-options.ts'
import { ROUTES } from './routes.ts'
import type { Server } from './server.ts'
import { StoreHealth } from './store-health.ts'
import { TenantNames } from './tenant-names.ts'

/** An Open Job Spec server: mount `fetch` in any framework that speaks the Fetch API. */
export interface HttpApp {
  fetch(request: Request): Promise<Response>
  /** Answers `/ready` with 503 from this call on. */
  drain(): void
  /**
   * Replaces all tokens and limits. Running requests continue. An invalid change leaves everything as it was.
   * @throws {SluiceError} `option.invalid`, `policy.invalid` and the codes of the start
   */
  reload(change: Reload): Promise<void>
  /**
   * Defines the limits of the options, and the tenants' copies of them, as an engine's start does. Call it once the
   * engine has started.
   */
  define(): Promise<void>
  /** Ends event streams. The caller stops the engine. */
  close(): void
}

const MAX_BODY_BYTES = 16 * 1_048_576

/** Makes a server of an engine. @throws {SluiceError} `option.invalid`, `policy.invalid` */
export function createHttpApp(options: HttpOptions): HttpApp {
  checkHttpOptions(options)
  const { sluice, clock = systemClock, logger = silentLogger, testMode = false } = options
  const newId = createIds(clock)
  const bounds = boundsOf(options.bounds)
  const access = createAccess(options.tokens, () => clock.now())
  const closing = new AbortController()
  let draining = false
  const operations = ROUTES.filter((each) => testMode || !each.testOnly)
  const version = packageVersion()
  let document: Record<string, unknown> | null = null
  const remote = remoteOf(sluice)
  const server: Server = {
    sluice,
    remote,
    clock,
    logger,
    newId,
    events: new EventLog(sluice, clock, newId),
    version,
    backend: options.backend ?? 'sqlite',
    testMode,
    startedMs: clock.now(),
    ready: () => !draining,
    serves: (path) => operations.some((each) => each.path === path),
    openApi: () => (document ??= openApi(operations, version)),
    auditor: new Auditor(remote, clock, logger),
    health: new StoreHealth(remote, clock),
    limits: new LimitRules(options.limits),
    // A test suite needs exact counts, even on a busy machine.
    counts: new QueueCounts(remote, clock, testMode ? 0 : undefined),
    bounds,
    heldOpen: new HeldOpen(bounds),
    names: new TenantNames(remote, clock, bounds),
    closing: closing.signal,
  }
  for (const warning of access.warnings) logger.warn({}, warning)
  const handler = new Handler({
    server,
    access,
    isHost: options.isHost ?? null,
    requests: options.requests === undefined ? null : new RequestBudget(options.requests, clock),
    maxBodyBytes: options.maxBodyBytes ?? MAX_BODY_BYTES,
  })
  const app = new Hono()
  const methods = [...new Set(operations.map((each) => each.method))]
  for (const each of operations) app.on(each.method, each.path, ({ req }) => handler.handle(req.raw, each, req.param()))
  app.notFound(({ req }) => {
    const served = methods.filter((method) => app.router.match(method, req.path)[0].length > 0)
    return handler.elsewhere(req.raw, req.path, served)
  })
  const fixed = fixedPaths(operations)
  return {
    fetch: async (request) => {
      const operation = fixed.get(`${request.method} ${pathOf(request.url)}`)
      return operation ? handler.handle(request, operation, {}) : app.fetch(request)
    },
    drain: () => {
      draining = true
    },
    define: async () => void (await redefine(server)),
    reload: (change) => reload(server, access, change),
    close: () => {
      draining = true
      closing.abort()
      server.events.close()
    },
  }
}

/** Operations that need no router, by method and path. Any other form of a path, such as HEAD of one, needs it. */
function fixedPaths(operations: readonly Operation[]): ReadonlyMap<string, Operation> {
  return new Map(
    operations.filter(({ path }) => !path.includes(':')).map((each) => [`${each.method} ${each.path}`, each]),
  )
}

/** The path of a URL, as it was sent. */
function pathOf(url: string): string {
  const start = url.indexOf('/', url.indexOf('://') + 3)
  const query = url.indexOf('?', start)
  return url.slice(start, query < 0 ? undefined : query)
}

function packageVersion(): string {
  // The manifest is two folders up, both from src/http and from dist/http.
  const manifest: unknown = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
  return (manifest as { version: string }).version
}
