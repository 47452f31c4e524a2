import { readFileSync } from 'node:fs'
import { type Command, Option } from 'commander'
import { SluiceError } from '../../base/errors.ts'
import type { RunningServer, ServeOptions } from '../serve/server.ts'
import { wholeOf } from '../view.ts'

interface Flags {
  readonly store?: string
  readonly port: string
  readonly host: string
  readonly config?: string
  readonly testMode?: true
  readonly durability?: 'power' | 'process'
}

const NEEDED = 'hono @hono/node-server zod pino'

/** Adds `sluice serve`: an Open Job Spec server for workers and clients in any language. */
export function registerServe(program: Command): void {
  program
    .command('serve')
    .description('serve workers and clients in any language over the Open Job Spec’s HTTP binding')
    .addOption(new Option('--store <url>', 'the store (default: SLUICE_STORE, else sqlite:./sluice.db)'))
    .addOption(new Option('--port <number>', 'where to listen; 0: any that is free').default('8080'))
    .addOption(new Option('--host <name>', 'where to listen; beyond loopback only with tokens').default('127.0.0.1'))
    .addOption(new Option('--config <file>', 'JSON: tokens, limits, types, queues'))
    .addOption(new Option('--durability <kind>', 'what an answer is worth').choices(['power', 'process']))
    .addOption(new Option('--test-mode', 'what conformance suites need: directives in jobs, POST /test/reset'))
    .action((flags: Flags) => serve(flags))
}

async function serve(flags: Flags): Promise<void> {
  try {
    const { startServer } = await load()
    const server = await startServer({
      store: flags.store ?? (process.env['SLUICE_STORE'] || 'sqlite:./sluice.db'),
      port: wholeOf(flags.port, '--port'),
      host: flags.host,
      testMode: flags.testMode === true,
      durability: flags.durability ?? 'power',
      config: flags.config === undefined ? {} : readConfig(flags.config),
    })
    process.stdout.write(`listening on ${server.url}\n`)
    let stopping: Promise<void> | null = null
    const stop = (): void => {
      stopping ??= server.stop()
    }
    process.once('SIGINT', stop)
    process.once('SIGTERM', stop)
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error
    process.exitCode = 2
    process.stderr.write(`error ${error.code}: ${error.message}\n`)
  }
}

async function load(): Promise<{ readonly startServer: (options: ServeOptions) => Promise<RunningServer> }> {
  try {
    return await import('../serve/server.ts')
  } catch (cause) {
    if ((cause as { code?: string }).code !== 'ERR_MODULE_NOT_FOUND') throw cause
    throw new SluiceError('cli.usage', `sluice serve needs packages that are not installed: npm install ${NEEDED}`, {
      cause,
    })
  }
}

function readConfig(file: string): unknown {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as unknown
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new SluiceError('cli.usage', `--config ${file} cannot be read: ${why}`, { cause })
  }
}
