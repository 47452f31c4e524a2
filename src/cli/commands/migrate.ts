import { type Command, Option } from 'commander'
import { systemClock } from '../../base/clock.ts'
import { SluiceError } from '../../base/errors.ts'
import { reportErrors } from '../view.ts'

interface MigrateFlags {
  readonly store?: string
  readonly dryRun?: true
}

const DETAILS = `
Creates the tables of a PostgreSQL store, or brings them up to this version; run twice, it does nothing the second time. Engines do the
same when they open a store: use this where they may not (a role without the right to create), or to read the SQL first.

Exit code: 0; 1 when the store cannot be reached or is newer than this version; 2 for a wrong option.`

/** Adds `sluice migrate`. */
export function registerMigrate(program: Command): void {
  program
    .command('migrate')
    .description('create or upgrade the tables of a PostgreSQL store')
    .addOption(new Option('--store <url>', 'the store, postgres://… (default: SLUICE_STORE)'))
    .addOption(new Option('--dry-run', 'print the SQL that would be run, and run nothing'))
    .addHelpText('after', DETAILS)
    .action((flags: MigrateFlags) => reportErrors(() => migrate(flags)))
}

async function migrate({ store, dryRun }: MigrateFlags): Promise<void> {
  const { upgradeStore } = await import('../../store/open.ts')
  const url = store ?? process.env['SLUICE_STORE'] ?? ''
  if (url === '') throw new SluiceError('cli.usage', 'migrate needs a store: --store postgres://…, or SLUICE_STORE')
  const sql = await upgradeStore(url, systemClock, dryRun === true)
  process.stdout.write(
    sql === '' ? 'Nothing to do: the store is of this version.\n' : dryRun ? `${sql.trim()}\n` : 'Done.\n',
  )
}
