import { type Command, Option } from 'commander'
import { addServerOptions } from '../serve/options.ts'
import type { RunningServer } from '../serve/server.ts'
import type { Flags } from '../serve/settings.ts'
import { errorLine } from '../view.ts'

interface ServeFlags extends Flags {
  readonly testMode?: true
  readonly check?: true
}

const DETAILS = `
Tokens are those of SLUICE_TOKENS_FILE (a file) or SLUICE_TOKENS, as JSON, else of the configuration. SIGHUP has tokens and limits read
again; SIGTERM and SIGINT end the server in good order.

Exit code: 0; 1 when the server cannot start; 2 for a wrong configuration, of options, variables or the file.`

/** Adds `sluice serve`: an Open Job Spec server for workers and clients in any language. */
export function registerServe(program: Command): void {
  const command = program
    .command('serve')
    .description('serve workers and clients in any language over the Open Job Spec’s HTTP binding')
  addServerOptions(command)
    .addOption(new Option('--check', 'check the configuration, the store and the budgets, and serve nothing'))
    .addOption(new Option('--test-mode', 'what conformance suites need: directives in jobs, POST /test/reset'))
    .addHelpText('after', DETAILS)
    .action((flags: ServeFlags) => serve(flags))
}

async function serve(flags: ServeFlags): Promise<void> {
  const started = Promise.withResolvers<RunningServer>()
  // Without a listener the signal would end a process that starts.
  if (!flags.check) process.on('SIGHUP', () => void started.promise.then((server) => server.reload()))
  const { isWrongConfig, readSettings } = await import('../serve/settings.ts')
  try {
    const { startServer, checkServer } = await import('../serve/server.ts')
    const { warmUpSooner } = await import('../serve/warm-up.ts')
    const { settings, file } = readSettings(flags, process.env)
    const options = { ...settings, file, testMode: flags.testMode === true }
    if (flags.check) {
      await checkServer(options)
      process.stdout.write('The configuration and the store are as they have to be.\n')
      return
    }
    warmUpSooner()
    const server = await startServer(options)
    started.resolve(server)
    process.stdout.write(`listening on ${server.url}\n`)
    let stopping: Promise<void> | null = null
    const stop = (): void => {
      stopping ??= server.stop()
    }
    process.once('SIGINT', stop)
    process.once('SIGTERM', stop)
  } catch (error) {
    // A failed start may have left handles open.
    process.stderr.write(errorLine(error))
    process.exit(isWrongConfig(error) ? 2 : 1)
  }
}
