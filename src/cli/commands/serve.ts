import { type Command, Option } from 'commander'
import { SluiceError } from '../../base/errors.ts'
import { withoutPassword } from '../../base/text.ts'
import { addServerOptions } from '../serve/options.ts'
import type { Flags } from '../serve/settings.ts'

interface ServeFlags extends Flags {
  readonly testMode?: true
  readonly check?: true
}

const DETAILS = `
Tokens are those of SLUICE_TOKENS_FILE (a file) or SLUICE_TOKENS, as JSON, else of the configuration. SIGHUP has tokens and limits read
again; SIGTERM and SIGINT end the server in good order.

Exit code: 0; 1 when the server cannot start; 2 for a wrong option.`

/** Adds `sluice serve`: an Open Job Spec server for workers and clients in any language. */
export function registerServe(program: Command): void {
  const command = program
    .command('serve')
    .description('serve workers and clients in any language over the Open Job Spec’s HTTP binding')
  addServerOptions(command)
    .addOption(new Option('--check', 'check the configuration and the store, and serve nothing'))
    .addOption(new Option('--test-mode', 'what conformance suites need: directives in jobs, POST /test/reset'))
    .addHelpText('after', DETAILS)
    .action((flags: ServeFlags) => serve(flags))
}

async function serve(flags: ServeFlags): Promise<void> {
  const { isWrongOption, readSettings } = await import('../serve/settings.ts')
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
    process.stdout.write(`listening on ${server.url}\n`)
    let stopping: Promise<void> | null = null
    const stop = (): void => {
      stopping ??= server.stop()
    }
    process.once('SIGINT', stop)
    process.once('SIGTERM', stop)
    process.on('SIGHUP', () => void server.reload())
  } catch (error) {
    fail(error, isWrongOption(error, flags) ? 2 : 1)
  }
}

/** Ends the process with one line, even if a failed start left handles open. */
function fail(error: unknown, exitCode: number): never {
  const code = error instanceof SluiceError ? ` ${error.code}` : ''
  const message = error instanceof Error ? error.message : String(error)
  process.stderr.write(`error${code}: ${withoutPassword(message).replaceAll(/\s*\n\s*/g, ' ')}\n`)
  process.exit(exitCode)
}
