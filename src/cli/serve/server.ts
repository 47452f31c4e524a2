import { remoteOf } from '../../remote/remote.ts'
import { pino } from 'pino'
import { systemClock } from '../../base/clock.ts'
import { SluiceError } from '../../base/errors.ts'
import type { Logger } from '../../base/logger.ts'
import { withoutPassword } from '../../base/text.ts'
import { Sluice } from '../../engine/engine.ts'
import { createAccess } from '../../http/access.ts'
import { createHttpApp, type HttpApp } from '../../http/app.ts'
import { createPage } from '../../dashboard/page-files.ts'
import { isLoopback, listen, type Listening } from '../../http/listen.ts'
import { askBudgets } from '../../http/ask-budgets.ts'
import { backendLoader } from '../../limiter/open.ts'
import { checkStore } from '../../store/open.ts'
import { readServeConfig, type ServeConfig } from './config.ts'
import { type SettingText, readConfigFile, type Settings } from './settings.ts'
import { tokensFrom } from './tokens.ts'

/** Options of a server. */
export interface ServeOptions extends Settings {
  readonly testMode: boolean
  /** The configuration file, which every reload reads again; null: none. */
  readonly file: SettingText | null
}

/** A running server. */
export interface RunningServer {
  readonly url: string
  /** Reads tokens and limits again. A failure is logged, and the old ones stay. */
  reload(): Promise<void>
  /** Ends in good order: requests end, waiting fetches are answered, the store is closed. */
  stop(): Promise<void>
}

const CLOSE_WITHIN_MS = 10_000

/**
 * Opens and serves the store.
 * @throws {SluiceError} `cli.usage` without tokens on a host that others can reach; also as an engine's start
 */
export async function startServer(options: ServeOptions): Promise<RunningServer> {
  const { host, port, drainDelay } = options
  const config = configOf(options)
  const logger = pino({ name: 'sluice', level: options.log }, pino.destination(2))
  const { app, sluice } = await begin(options, config, logger)
  let listening: Listening
  try {
    listening = await listen(withPage(app, logger), { host, port })
  } catch (error) {
    app.close()
    await sluice.stop({ within: 0 })
    throw error
  }
  return {
    url: listening.url,
    async reload() {
      try {
        const { tokens, served, queues } = configOf(options)
        await app.reload({ tokens, limits: served, by: 'SIGHUP' })
        const store = await remoteOf(sluice).store()
        for (const [queue, { stripes }] of Object.entries(queues))
          if (stripes !== undefined) await store.stripeQueue(queue, stripes)
        logger.info({}, 'tokens and limits were read again')
      } catch (error) {
        logger.error({}, `The configuration could not be read again, and stays as it was: ${wordsOf(error)}`)
      }
    },
    async stop() {
      app.drain()
      if (drainDelay > 0) await new Promise<void>((resolve) => void systemClock.setTimer(resolve, drainDelay))
      remoteOf(sluice).stop()
      app.close()
      await listening.close(CLOSE_WITHIN_MS)
      await sluice.stop()
    },
  }
}

/**
 * Checks a server's options, that its store could be opened, and that its budgets' backend answers; serves nothing. It
 * throws as `startServer` does.
 */
export async function checkServer(options: ServeOptions): Promise<void> {
  checkConfig(options)
  await checkStore(options.store, systemClock)
  if (options.budgets !== undefined) await askBudgets(options.budgets, systemClock)
}

/** Checks a configuration and opens no store. @throws {SluiceError} as `startServer` does */
export function checkConfig(options: ServeOptions): ServeConfig {
  const config = configOf(options)
  const { tokens, limits, tasks, queues } = config
  const { budgets, store } = options
  createAccess(tokens, () => systemClock.now())
  void new Sluice({ store, tasks, limits, queues })
  if (budgets !== undefined) backendLoader(budgets, null, systemClock)
  return config
}

/** The app with the dashboard's page at /dashboard. A page that was not built leaves the rest as it is. */
function withPage(app: HttpApp, logger: Logger): Pick<HttpApp, 'fetch'> {
  try {
    const page = createPage({ basePath: '/dashboard', api: '/monitor/v1', signIn: 'token' })
    // Every request of every worker comes by here: only what looks like the page's is taken apart.
    return {
      fetch: (request) =>
        request.url.includes('/dashboard') && page.serves(new URL(request.url).pathname)
          ? page.fetch(request)
          : app.fetch(request),
    }
  } catch (error) {
    logger.warn({}, wordsOf(error))
    return app
  }
}

/** Formats an error as one line, without passwords. */
function wordsOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error)
  return withoutPassword(text).replaceAll(/\s*\n\s*/g, ' ')
}

/** The configuration with its tokens. @throws {SluiceError} `cli.usage`, `option.invalid` */
function configOf({ file, host }: ServeOptions): ServeConfig {
  const config = readServeConfig(file === null ? {} : readConfigFile(file))
  const { tokens } = tokensFrom(process.env, config.tokens)
  if (tokens.length === 0 && !isLoopback(host))
    throw new SluiceError(
      'cli.usage',
      `Every client that reaches ${host} would have full access. Set tokens in --config, SLUICE_TOKENS_FILE or SLUICE_TOKENS, or listen on 127.0.0.1.`,
    )
  return { ...config, tokens }
}

async function begin(
  { store, testMode, durability, budgets }: ServeOptions,
  { tokens, requests, bounds, served, limits, tasks, queues }: ServeConfig,
  logger: Logger,
): Promise<{ app: HttpApp; sluice: Sluice }> {
  createAccess(tokens, () => systemClock.now())
  const sluice = new Sluice({ store, tasks, limits, durability, logger, queues })
  let app: HttpApp | null = null
  try {
    await sluice.start()
    app = createHttpApp({
      sluice,
      tokens,
      limits: served,
      isHost: isLoopback,
      ...(requests && { requests }),
      bounds,
      ...(budgets !== undefined && { budgets }),
      logger,
      testMode,
      backend: (await remoteOf(sluice).store()).backend,
    })
    await app.define()
    return { app, sluice }
  } catch (error) {
    app?.close()
    await sluice.stop({ within: 0 }).catch(() => undefined)
    throw error
  }
}
