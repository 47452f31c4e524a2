import type { Clock } from '../../base/clock.ts'
import { SluiceError } from '../../base/errors.ts'
import type { Logger } from '../../base/logger.ts'
import { checkMethods, checkOptions, show } from '../../base/options.ts'
import { LONGEST_NAME } from '../../base/text.ts'
import { Sluice } from '../../engine/engine.ts'
import type { Access } from '../access.ts'
import { Handler } from '../handler.ts'
import { openApiDocument } from '../ojs/system.ts'
import { Refusal } from '../refusal.ts'
import { routerOf } from '../router.ts'
import { serverParts } from '../server-parts.ts'
import { isTenant } from '../tenant.ts'
import type { Redact } from './redact.ts'
import { MONITOR_ROUTES } from './routes.ts'

/** The rights of a caller: look, or look and act. With a name for the record of changes, and bounded to a tenant. */
export type Grant =
  | 'reader'
  | 'operator'
  | {
      readonly role: 'reader' | 'operator'
      /** 1 to 255 characters; default: the role. */
      readonly name?: string
      /** The only tenant whose things the caller sees; absent: all. */
      readonly tenant?: string
    }

/** The options of a mounted monitor. */
export interface MonitorOptions {
  /** The engine whose store it shows; the caller starts and stops it. */
  readonly sluice: Sluice
  /**
   * Says what the sender of a request may do; null: nothing. It is called at each request, and every few seconds while
   * a stream of changes is open.
   */
  readonly authorize: (request: Request) => Grant | null | Promise<Grant | null>
  /**
   * The monitor hides these in payloads, results and metadata: values of these keys, beside those that look like secrets; or a
   * function; or false, nothing.
   */
  readonly redact?: Redact | undefined
  /** The part before `/monitor/v1` in the path, such as `/admin/jobs`; default: nothing. */
  readonly basePath?: string | undefined
  /** The engine's clock; default: the system's. */
  readonly clock?: Clock | undefined
  /** Any pino-like object; default: no log. */
  readonly logger?: Logger | undefined
}

/** The monitor as a handler of the Fetch API. */
export interface MonitorHandler {
  fetch(request: Request): Promise<Response>
  /** Whether it answers requests to a path. */
  serves(path: string): boolean
  /** Ends its streams. The caller stops the engine. */
  close(): void
}

const MAX_BODY_BYTES = 1_048_576
const KNOWN = ['sluice', 'authorize', 'redact', 'basePath', 'clock', 'logger'] as const
const BASE_PATH = /^(\/[A-Za-z0-9._~-]+)*$/
const CALLERS_AT_MOST = 1000

/** Makes a monitor that an application mounts, without a server for workers. @throws {SluiceError} `option.invalid` */
export function monitorHandler(options: MonitorOptions): MonitorHandler {
  const basePath = checkMonitorOptions(options)
  const { sluice, authorize, redact, clock, logger } = options
  const operations = [...MONITOR_ROUTES, openApiDocument]
  const given = { sluice, ...(redact !== undefined && { redact }), ...(clock && { clock }), ...(logger && { logger }) }
  const parts = serverParts(given, operations, 'Sluice: monitor')
  const callers = new Map<string, Access>()
  const handler = new Handler({
    server: parts.server,
    access: { open: false, of: async (request) => accessOf(callers, await authorize(request)) },
    isHost: null,
    requests: null,
    maxBodyBytes: MAX_BODY_BYTES,
  })
  return {
    fetch: routerOf(handler, operations, basePath),
    serves: (path) => path.startsWith(`${basePath}/monitor/v1/`) || path === `${basePath}/openapi.json`,
    close: () => parts.close(),
  }
}

/** @throws {SluiceError} `option.invalid` */
function checkMonitorOptions(options: MonitorOptions): string {
  const what = 'the monitor'
  checkOptions(options, KNOWN, what, { aliases: { engine: 'sluice', auth: 'authorize', prefix: 'basePath' } })
  const { sluice, authorize, basePath = '', clock, logger } = options
  const wrong = (name: string, value: unknown, expected: string): SluiceError =>
    new SluiceError('option.invalid', `${name} of ${what} is invalid: ${show(value)}. Expected ${expected}.`)
  if (!(sluice instanceof Sluice)) throw wrong('sluice', sluice, 'an engine')
  // Without it every visitor of the application could cancel jobs.
  if (typeof authorize !== 'function')
    throw wrong('authorize', authorize, "a function that answers null, 'reader' or 'operator' for a request")
  if (typeof basePath !== 'string' || !BASE_PATH.test(basePath))
    throw wrong('basePath', basePath, 'a path such as /admin/jobs, without a slash at its end')
  if (clock !== undefined) checkMethods(clock, ['now', 'monotonicUs', 'setTimer'], `clock of ${what}`)
  if (logger !== undefined) checkMethods(logger, ['debug', 'info', 'warn', 'error'], `logger of ${what}`)
  return basePath
}

/** The access of a grant: one object for equal grants, since bounds count by it. @throws {Refusal} 401 */
function accessOf(callers: Map<string, Access>, grant: Grant | null | undefined): Access {
  if (grant === null || grant === undefined)
    throw new Refusal(401, 'unauthenticated', 'The application does not know who sends this request.', {
      hint: 'Sign in to the application first.',
    })
  const { role, name, tenant } = typeof grant === 'string' ? { role: grant } : grant
  const isKnown = (role === 'reader' || role === 'operator') && (tenant === undefined || isTenant(tenant))
  const hasName = name === undefined || (typeof name === 'string' && name !== '' && name.length <= LONGEST_NAME)
  if (!isKnown || !hasName)
    throw new TypeError(
      `authorize of the monitor answered ${show(grant)}. Expected null, 'reader', 'operator' or { role, name?, tenant? }.`,
    )
  const id = JSON.stringify([role, name, tenant])
  const known = callers.get(id)
  if (known) return known
  if (callers.size >= CALLERS_AT_MOST) callers.clear()
  const access: Access = {
    name: name ?? role,
    scopes: new Set(role === 'operator' ? ['operator', 'reader'] : ['reader']),
    tenant: tenant ?? null,
    allTenants: tenant === undefined,
    mayName: () => true,
    queues: ['*'],
    everywhere: true,
    onlyQueue: null,
  }
  callers.set(id, access)
  return access
}
