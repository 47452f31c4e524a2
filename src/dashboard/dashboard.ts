import { SluiceError } from '../base/errors.ts'
import { show } from '../base/options.ts'
import { type MonitorOptions, monitorHandler } from '../http/monitor/handler.ts'
import { createPage } from './page-files.ts'

/** The options of a dashboard: those of the monitor API that it shows. */
export interface DashboardOptions extends MonitorOptions {
  /** The path below which the application mounts it, without a slash at its end; default: `/dashboard`. */
  readonly basePath?: string | undefined
  /**
   * Who tells visitors apart. `application`, the default: the application around it, by its own cookies or headers.
   * `token`: the page asks for a token, and sends it as a bearer token with each request.
   */
  readonly signIn?: 'application' | 'token' | undefined
}

/** A dashboard as a handler of the Fetch API: mount `fetch` at its path, with everything below. */
export interface Dashboard {
  /** Answers requests to the page and to its API; 404 elsewhere. It needs no `this`. */
  readonly fetch: (request: Request) => Promise<Response>
  /** Whether it answers requests to a path. */
  serves(path: string): boolean
  /** Ends its streams. The caller stops the engine. */
  close(): void
}

/**
 * Makes the dashboard of an engine: one page, and below `monitor/v1` the API that it asks. The page itself holds no data,
 * so that its files are given to each visitor; `authorize` is asked at each request for data.
 * @throws {SluiceError} `option.invalid`; `dashboard.missing` where the package was not built
 */
export function createDashboard(options: DashboardOptions): Dashboard {
  const { basePath = '/dashboard', signIn = 'application', ...monitored } = options
  if (signIn !== 'application' && signIn !== 'token')
    throw new SluiceError(
      'option.invalid',
      `signIn of the dashboard is invalid: ${show(signIn)}. Expected 'application' or 'token'.`,
    )
  const monitor = monitorHandler({ ...monitored, basePath })
  const page = createPage({ basePath, api: `${basePath}/monitor/v1`, signIn })
  return {
    fetch: async (request) => {
      const { pathname } = new URL(request.url)
      if (monitor.serves(pathname)) return monitor.fetch(request)
      if (page.serves(pathname)) return page.fetch(request)
      return new Response('The dashboard is not here.\n', { status: 404 })
    },
    serves: (path) => monitor.serves(path) || page.serves(path),
    close: () => monitor.close(),
  }
}
