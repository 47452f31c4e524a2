import { systemClock } from '../base/clock.ts'
import { mayPass } from '../base/errors.ts'
import { messageOf } from '../base/thrown.ts'
import { createAccess } from './access.ts'
import { askBudgets } from './ask-budgets.ts'
import { Handler } from './handler.ts'
import { checkHttpOptions, type HttpOptions } from './http-options.ts'
import { redefine, reload, type Reload } from './reload.ts'
import { RequestBudget } from './request-budget.ts'
import { routerOf } from './router.ts'
import { ROUTES } from './routes.ts'
import type { Server } from './server.ts'
import { serverParts } from './server-parts.ts'

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
   * Defines the limits of the options, and the tenants' copies of them, as an engine's start does, and asks the backend
   * of the budgets for up to 3 s. One that is away is logged: requests for budgets are refused until it is back. Call it
   * once the engine has started.
   * @throws {SluiceError} `limiter.backend_down` and the codes of a store, for a backend that refuses: for a password, a
   * right, or as another server
   */
  define(): Promise<void>
  /** Ends event streams. The caller stops the engine. */
  close(): void
}

const MAX_BODY_BYTES = 16 * 1_048_576

/** Makes a server of an engine. @throws {SluiceError} `option.invalid`, `policy.invalid` */
export function createHttpApp(options: HttpOptions): HttpApp {
  checkHttpOptions(options)
  const { clock = systemClock, testMode = false } = options
  const access = createAccess(options.tokens, () => clock.now())
  const operations = ROUTES.filter((each) => testMode || !each.testOnly)
  const parts = serverParts(options, operations, 'Sluice: Open Job Spec')
  const { server } = parts
  // It keeps events from now on, also those before its first reader.
  void server.events
  for (const warning of access.warnings) server.logger.warn({}, warning)
  const handler = new Handler({
    server,
    access: {
      get open() {
        return access.open
      },
      of: ({ headers }) => access.of(headers.get('authorization')),
    },
    isHost: options.isHost ?? null,
    requests: options.requests === undefined ? null : new RequestBudget(options.requests, clock),
    maxBodyBytes: options.maxBodyBytes ?? MAX_BODY_BYTES,
  })
  return {
    fetch: routerOf(handler, operations),
    drain: () => parts.drain(),
    define: async () => {
      if (options.budgets !== undefined) await askOrWarn(options.budgets, server)
      await redefine(server)
    },
    reload: (change) => reload(server, access, change),
    close: () => parts.close(),
  }
}

async function askOrWarn(budgets: NonNullable<HttpOptions['budgets']>, { clock, logger }: Server): Promise<void> {
  try {
    await askBudgets(budgets, clock)
  } catch (error) {
    if (!mayPass(error)) throw error
    logger.warn(
      { err: error },
      `${messageOf(error)} The server serves without it: requests to /limiter/v1 get 503 until it answers.`,
    )
  }
}
