import { type Command, Option } from 'commander'
import { portOf, reportErrors } from '../view.ts'

interface Flags {
  readonly store?: string
  readonly port: string
  readonly host: string
  readonly token?: string
}

const DETAILS = `
The page shows limits, jobs, flows, queues, schedules, workers, tasks, and who changed what; it changes them, too. It is served
to this machine alone unless there is a token, which the page then asks for. Give the token as SLUICE_DASHBOARD_TOKEN, since
other users of this machine can read the options of a process.

Exit code: 0; 1 when the store does not open, the port is taken or the page is not built; 2 for a wrong option.`

/** Adds `sluice dashboard`: the page of a store. */
export function registerDashboard(program: Command): void {
  program
    .command('dashboard')
    .description('serve the dashboard of a store: look at its limits and jobs, and act on them')
    .addOption(new Option('--store <url>', 'the store (default: SLUICE_STORE, else sqlite:./sluice.db)'))
    .addOption(new Option('--port <number>', 'where to listen; 0: any that is free').default('4680'))
    .addOption(new Option('--host <name>', 'where to listen; beyond loopback only with a token').default('127.0.0.1'))
    .addOption(new Option('--token <text>', 'what viewers have to know (default: SLUICE_DASHBOARD_TOKEN)'))
    .addHelpText('after', DETAILS)
    .action((flags: Flags) => reportErrors(() => serve(flags)))
}

async function serve(flags: Flags): Promise<void> {
  const { serveDashboard } = await import('../dashboard/serve-dashboard.ts')
  const dashboard = await serveDashboard({
    store: flags.store ?? (process.env['SLUICE_STORE'] || 'sqlite:./sluice.db'),
    port: portOf(flags.port),
    host: flags.host,
    token: flags.token ?? (process.env['SLUICE_DASHBOARD_TOKEN'] || null),
  })
  process.stdout.write(`the dashboard is at ${dashboard.url}/\n`)
  let stopping: Promise<void> | null = null
  const stop = (): void => {
    stopping ??= dashboard.stop()
  }
  process.once('SIGINT', stop)
  process.once('SIGTERM', stop)
}
