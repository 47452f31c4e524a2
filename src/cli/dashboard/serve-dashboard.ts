import { createHash, timingSafeEqual } from 'node:crypto'
import { systemClock } from '../../base/clock.ts'
import { SluiceError } from '../../base/errors.ts'
import { silentLogger } from '../../base/logger.ts'
import { createDashboard, type Dashboard } from '../../dashboard/dashboard.ts'
import { Sluice } from '../../engine/engine.ts'
import { isLoopback, listen, type Listening } from '../../http/listen.ts'
import { openExisting } from '../../store/open.ts'

/** The options of a dashboard that is served by itself. */
export interface ServeDashboardOptions {
  readonly store: string
  /** 0: any free port. */
  readonly port: number
  readonly host: string
  /** Null: every caller may look and act, and only this machine may call. */
  readonly token: string | null
}

/** A running dashboard. */
export interface RunningDashboard {
  readonly url: string
  stop(): Promise<void>
}

const CLOSE_WITHIN_MS = 2000
const SHORTEST_TOKEN = 16

/**
 * Serves the dashboard of a store that exists. Its engine runs no job.
 * @throws {SluiceError} `cli.usage`, `store.missing`, `server.listen`; also as an engine's start
 */
export async function serveDashboard(options: ServeDashboardOptions): Promise<RunningDashboard> {
  const { store, host, port, token } = options
  if (token === null && !isLoopback(host))
    throw new SluiceError(
      'cli.usage',
      `Every client that reaches ${host} could change jobs and limits. Give the dashboard a --token, or listen on 127.0.0.1.`,
    )
  if (token !== null && token.length < SHORTEST_TOKEN)
    throw new SluiceError('cli.usage', `--token is too short: expected at least ${SHORTEST_TOKEN} characters.`)
  // A misspelt path must not become a new, empty store.
  await (await openExisting(store, systemClock)).close()
  const sluice = new Sluice({ store, tasks: [], queues: {}, logger: silentLogger })
  let dashboard: Dashboard | null = null
  const listening = await start().catch(async (error: unknown) => {
    dashboard?.close()
    // An open store would keep the process alive.
    await sluice.stop({ within: 0 }).catch(() => undefined)
    throw error
  })
  return {
    url: listening.url,
    async stop() {
      dashboard?.close()
      await listening.close(CLOSE_WITHIN_MS)
      await sluice.stop()
    },
  }

  async function start(): Promise<Listening> {
    await sluice.start()
    dashboard = createDashboard({
      sluice,
      authorize: token === null ? fromThisMachine : withToken(token),
      signIn: token === null ? 'application' : 'token',
      basePath: '',
    })
    return listen(dashboard, { host, port })
  }
}

/** A page whose own name was pointed at this machine sends that name, and gets nothing. */
function fromThisMachine(request: Request): { role: 'operator'; name: string } | null {
  const { hostname } = new URL(request.url)
  return isLoopback(hostname.replace(/^\[|\]$/g, '')) ? { role: 'operator', name: 'local' } : null
}

function withToken(token: string): (request: Request) => { role: 'operator'; name: string } | null {
  const digest = digestOf(token)
  return (request) => {
    const bearer = /^Bearer +(\S+)$/i.exec(request.headers.get('authorization') ?? '')?.[1]
    return bearer !== undefined && timingSafeEqual(digestOf(bearer), digest)
      ? { role: 'operator', name: 'token' }
      : null
  }
}

function digestOf(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
