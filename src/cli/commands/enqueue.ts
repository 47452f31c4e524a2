import { type Command, Option } from 'commander'
import type { Duration } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { quote } from '../../base/options.ts'
import type { Store } from '../../store/contract/store.ts'
import { jsonOf } from '../json.ts'
import { instantOf } from '../times.ts'
import { addStoreOptions, priorityOf, requireName, show, type View, type ViewFlags, wholeOf } from '../view.ts'

const DETAILS = `
The input is JSON, null by default. The limits of a task are in its code, which this command does not have: name each one that the
store defines, as --limit crm or, with a key, --limit crm=acme. --no-limits stores a job without any. The queue of a tenant is acme/mail, and has to be in the store.
With --json: { id, created }.

Exit code: 0; 1 when there is no such store or limit; 2 for a wrong option.`

interface EnqueueFlags extends ViewFlags {
  readonly queue: string
  readonly priority: string
  readonly attempts: string
  readonly limit: readonly string[]
  readonly limits: boolean
  readonly weight?: string
  readonly delay?: string
  readonly runAt?: string
  readonly unique?: string
  readonly dryRun?: true
}

/** Adds `sluice enqueue`. */
export function registerEnqueue(program: Command): void {
  const all = (text: string, before: readonly string[]): readonly string[] => [...before, text]
  addStoreOptions(program.command('enqueue').description('store a job of a task'))
    .argument('<task>')
    .argument('[input]', 'JSON', 'null')
    .option('--queue <queue>', 'its queue', 'default')
    .option('--priority <number>', '-100 to 100; higher starts first', '0')
    .option('--attempts <count>', 'the most attempts', '3')
    .addOption(
      new Option('--limit <name[=key]>', 'a limit that it needs; may be given several times')
        .argParser(all)
        .default([], 'none'),
    )
    .option('--weight <units>', 'its cost under each limit; 1 by default')
    .option('--no-limits', 'the task has no limits')
    .option('--delay <duration>', 'it starts so much later, as 10m')
    .option('--run-at <time>', 'it starts then, in ISO 8601')
    .option('--unique <key>', 'stores nothing while another job of the task holds the key')
    .option('--dry-run', 'only check')
    .addHelpText('after', DETAILS)
    .action((task: string, text: string, flags: EnqueueFlags) =>
      show(flags, (store) => enqueue(store, task, text, flags)),
    )
}

async function enqueue(store: Store, task: string, text: string, flags: EnqueueFlags): Promise<View> {
  const { prepareNamed } = await import('../../engine/api/named-job.ts')
  const { knownQueue } = await import('../../engine/api/queues.ts')
  const { ownerOfQueue } = await import('../../jobs/flow.ts')
  const { readingParts } = await import('../reading-parts.ts')
  if (!flags.limits && flags.limit.length > 0)
    throw new SluiceError('cli.usage', '--limit and --no-limits exclude each other. Leave one of them out.')
  if (flags.limits && flags.limit.length === 0)
    throw new SluiceError(
      'cli.usage',
      'The limits of a task are in its code, which this command does not have. Name each with --limit name or --limit name=key, or add --no-limits for a task that has none.',
    )
  const { calls, tasks } = readingParts(store)
  const stored = await knownQueue(store, flags.queue)
  const { queue, tenant } = ownerOfQueue(stored)
  const job = await prepareNamed(store, calls, tasks, {
    task,
    input: jsonOf(text, 'The input', '{"tenant":"acme"}'),
    queue,
    tenant,
    priority: priorityOf(flags.priority, '--priority'),
    attempts: wholeOf(flags.attempts, '--attempts'),
    weight: flags.weight === undefined ? undefined : wholeOf(flags.weight, '--weight'),
    limits: flags.limit.map(limitOf),
    unique: flags.unique,
    delay: flags.delay as Duration | undefined,
    runAt: flags.runAt === undefined ? undefined : instantOf(flags.runAt),
  })
  if (flags.dryRun) return { data: { id: null, created: false }, lines: () => ['The job could be stored.'] }
  const [answer] = await store.enqueue([{ ...job, queue: stored }])
  const created = answer?.kind === 'created'
  const id = answer?.id ?? job.id
  const words = created ? `The job ${id} was stored.` : `The job ${id} holds the unique key; nothing was stored.`
  return { data: { id, created }, lines: () => [words] }
}

/** Reads `crm` or `crm=acme`. @throws {SluiceError} `cli.usage` for an empty key, as of an unset variable of a shell */
function limitOf(text: string): { readonly limit: string; readonly key?: string } {
  const [limit = '', ...rest] = text.split('=')
  requireName(limit, `The limit of --limit ${quote(text)}`)
  if (rest.length === 0) return { limit }
  const key = rest.join('=')
  if (key === '')
    throw new SluiceError(
      'cli.usage',
      `The key of --limit ${quote(text)} is empty. Name the key, or write --limit ${limit} for the budget without a key.`,
    )
  return { limit, key }
}
