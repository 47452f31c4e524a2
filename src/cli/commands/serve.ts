import { type Command, Option } from 'commander'
import { type Duration, durationMs } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { withoutPassword } from '../../base/text.ts'
import { wholeOf } from '../view.ts'

interface Flags {
  readonly store?: string
  readonly port: string
  readonly host: string
  readonly config?: string
  readonly budgets?: string
  readonly testMode?: true
  readonly check?: true
  readonly drainDelay: string
  readonly durability?: 'power' | 'process'
}

const DETAILS = `
Tokens are those of SLUICE_TOKENS_FILE (a file) or SLUICE_TOKENS, as JSON, else of the configuration. SIGHUP has tokens and limits read
again; SIGTERM and SIGINT end the server in good order.

Exit code: 0; 1 when the server cannot start; 2 for a wrong option.`

/** Adds `sluice serve`: an Open Job Spec server for workers and clients in any language. */
export function registerServe(program: Command): void {
  program
    .command('serve')
    .description('serve workers and clients in any language over the Open Job Spec’s HTTP binding')
    .addOption(new Option('--store <url>', 'the store (default: SLUICE_STORE, else sqlite:./sluice.db)'))
    .addOption(new Option('--port <number>', 'where to listen; 0: any that is free').default('8080'))
    .addOption(new Option('--host <name>', 'where to listen; beyond loopback only with tokens').default('127.0.0.1'))
    .addOption(new Option('--config <file>', 'JSON: tokens, limits, types, queues'))
    .addOption(
      new Option('--budgets <url>', 'the limits of /limiter/v1: memory:, redis://… or nats://… (default: the store)'),
    )
    .addOption(new Option('--check', 'check the configuration and the store, and serve nothing'))
    .addOption(new Option('--drain-delay <duration>', 'serve on for so long after a signal to stop').default('0s'))
    .addOption(new Option('--durability <kind>', 'what an answer is worth').choices(['power', 'process']))
    .addOption(new Option('--test-mode', 'what conformance suites need: directives in jobs, POST /test/reset'))
    .addHelpText('after', DETAILS)
    .action((flags: Flags) => serve(flags))
}

async function serve(flags: Flags): Promise<void> {
  try {
    const { startServer, checkServer } = await import('../serve/server.ts')
    const options = {
      store: flags.store ?? (process.env['SLUICE_STORE'] || 'sqlite:./sluice.db'),
      port: wholeOf(flags.port, '--port'),
      host: flags.host,
      testMode: flags.testMode === true,
      durability: flags.durability ?? 'power',
      configFile: flags.config,
      budgets: flags.budgets,
      drainMs: durationMs(flags.drainDelay as Duration, '--drain-delay'),
    }
    if (flags.check) {
      await checkServer(options)
      process.stdout.write('The configuration and the store are as they have to be.\n')
      return
    }
    const server = await startServer(options)
    process.stdout.write(`listening on ${server.url}\n`)
    let stopping: Promise<void> | null = null
    const stop = (): void => {
      stopping ??= server.stop()
    }
    process.once('SIGINT', stop)
    process.once('SIGTERM', stop)
    process.on('SIGHUP', () => void server.reload())
  } catch (error) {
    fail(error)
  }
}

/** Ends the process with one line, even if a failed start left handles open. */
function fail(error: unknown): never {
  const code = error instanceof SluiceError ? ` ${error.code}` : ''
  const message = error instanceof Error ? error.message : String(error)
  process.stderr.write(`error${code}: ${withoutPassword(message).replaceAll(/\s*\n\s*/g, ' ')}\n`)
  process.exit(error instanceof SluiceError && error.code === 'cli.usage' ? 2 : 1)
}
