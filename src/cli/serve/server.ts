import { pino } from 'pino'
import { SluiceError } from '../../base/errors.ts'
import type { Logger } from '../../base/logger.ts'
import { Sluice } from '../../engine/engine.ts'
import { createHttpApp, type HttpApp } from '../../http/app.ts'
import { isLoopback, listen } from '../../http/listen.ts'
import type { Durability } from '../../store/store.ts'
import { readServeConfig, type ServeConfig } from './config.ts'

/** How a server is started. */
export interface ServeOptions {
  readonly store: string
  readonly port: number
  readonly host: string
  readonly testMode: boolean
  readonly durability: Durability
  /** The parsed configuration file. */
  readonly config: unknown
}

/** A server at work. */
export interface RunningServer {
  readonly url: string
  /** Ends in good order: requests end, waiting fetches are answered, the store is closed. */
  stop(): Promise<void>
}

const CLOSE_WITHIN_MS = 10_000

/** Opens the store, and serves it. @throws cli.usage without tokens on a host that others can reach; as an engine's start */
export async function startServer(options: ServeOptions): Promise<RunningServer> {
  const { host, port } = options
  const config = readServeConfig(options.config)
  if (config.tokens.length === 0 && !isLoopback(host))
    throw new SluiceError(
      'cli.usage',
      `Whoever can reach ${host} could do everything: give tokens in --config, or listen on 127.0.0.1.`,
    )
  const logger = pino({ name: 'sluice', level: process.env['SLUICE_LOG'] || 'info' }, pino.destination(2))
  const { app, sluice } = await begin(options, config, logger)
  const listening = await listen(app, { host, port })
  return {
    url: listening.url,
    async stop() {
      app.drain()
      sluice.remote.stop()
      app.close()
      await listening.close(CLOSE_WITHIN_MS)
      await sluice.stop()
    },
  }
}

async function begin(
  { store, testMode, durability }: ServeOptions,
  { tokens, requests, served, limits, tasks, queues }: ServeConfig,
  logger: Logger,
): Promise<{ app: HttpApp; sluice: Sluice }> {
  const sluice = new Sluice({ store, tasks, limits, durability, logger, queues })
  await sluice.start()
  const app = createHttpApp({
    sluice,
    tokens,
    limits: served,
    isHost: isLoopback,
    ...(requests && { requests }),
    logger,
    testMode,
    backend: (await sluice.remote.store()).backend,
  })
  return { app, sluice }
}
