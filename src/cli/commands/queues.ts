import type { Command } from 'commander'
import { SluiceError } from '../../base/errors.ts'
import { quote } from '../../base/options.ts'
import type { Duration } from '../../base/duration.ts'
import type { QueuesApi, QueueView } from '../../engine/api/queues.ts'
import { groupDigits } from '../../policy/limits/policy-words.ts'
import { type Column, tableOf } from '../table.ts'
import { addStoreOptions, addViewOptions, reportErrors, show, type View, type ViewFlags } from '../view.ts'
import { printable } from '../words.ts'

const DETAILS = `
  waiting    jobs that are available, wherever they wait for budget
  later      scheduled jobs, those that wait for their next attempt, and those that wait for others
  running    jobs that a worker has
  workers    live workers that serve the queue

Exit code: 0; 1 when there is no such store or queue; 2 for a wrong option.`
const CHANGES = `
Exit code: 0; 1 when there is no such store or queue, or when a drain takes too long; 2 for a wrong option.`

/** Adds `sluice queues`. */
export function registerQueues(program: Command): void {
  const queues = program.command('queues').description('the queues of a store: look, pause, resume, drain, bound')
  // So that the commands below it may have options of the same name.
  queues.enablePositionalOptions()
  addViewOptions(queues)
    .addHelpText('after', DETAILS)
    .action((flags: ViewFlags) =>
      show(flags, async (store) => {
        const found = await (await apiOf(store)).list()
        return {
          data: found,
          lines: (paint) => (found.length === 0 ? ['No queue was used.'] : tableOf(COLUMNS, found.map(row), paint)),
        }
      }),
    )
  verb(queues, 'pause', 'stop all further starts of a queue', (api, queue) => api.pause(queue))
  verb(queues, 'resume', 'let the jobs of a paused queue start again', (api, queue) => api.resume(queue))
  const bound = queues.command('bound').description('bound how many jobs clients of a server may store in a queue')
  addStoreOptions(bound.argument('<queue>').argument('<count>', 'a number, or none'))
    .addHelpText('after', CHANGES)
    .action((queue: string, count: string, _: unknown, command: Command) =>
      reportErrors(async () => {
        const most = boundOf(count)
        return make(command, queue, (api) => api.bound(queue, most))
      }),
    )
  const drain = queues.command('drain').description('wait until no job of a queue waits or runs; deletes nothing')
  addStoreOptions(drain.argument('<queue>'))
    .option('--timeout <duration>', 'how long to wait, as 10m')
    .addHelpText('after', CHANGES)
    .action((queue: string, { timeout }: { readonly timeout?: Duration }, command: Command) =>
      make(command, queue, (api) => api.drain(queue, timeout === undefined ? {} : { timeout })),
    )
}

function boundOf(text: string): number | null {
  if (text === 'none') return null
  if (/^[1-9]\d{0,9}$/.test(text)) return Number(text)
  throw new SluiceError('cli.usage', `The bound is invalid: ${quote(text)}. Expected a whole number from 1, or none.`)
}

const COLUMNS: readonly Column[] = [
  { head: 'queue' },
  { head: 'state' },
  { head: 'waiting', right: true },
  { head: 'later', right: true },
  { head: 'running', right: true },
  { head: 'failed', right: true },
  { head: 'bound', right: true },
  { head: 'workers', right: true },
]

function row({ name, paused, jobs, bound, workers }: QueueView): string[] {
  const later = jobs.scheduled + jobs.retryable + jobs.pending
  const figures = [jobs.available, later, jobs.active, jobs.discarded].map(groupDigits)
  return [name, paused ? 'paused' : 'open', ...figures, bound === null ? '' : groupDigits(bound), groupDigits(workers)]
}

function verb(
  queues: Command,
  name: string,
  description: string,
  act: (api: QueuesApi, queue: string) => Promise<void>,
): void {
  addStoreOptions(queues.command(name).description(description).argument('<queue>'))
    .addHelpText('after', CHANGES)
    .action((queue: string, _: unknown, command: Command) => make(command, queue, (api) => act(api, queue)))
}

/** Changes a queue that the store knows: a misspelt one would be made by the change. */
function make(command: Command, queue: string, act: (api: QueuesApi) => Promise<void>): Promise<void> {
  const flags = command.optsWithGlobals<ViewFlags>()
  return show(flags, async (store): Promise<View> => {
    const api = await apiOf(store)
    if (!(await api.get(queue)))
      throw new SluiceError('queue.unknown', `No queue ${printable(queue)} is in this store; sluice queues lists them.`)
    await act(api)
    const after = await api.get(queue)
    return { data: after, lines: (paint) => tableOf(COLUMNS, after ? [row(after)] : [], paint) }
  })
}

async function apiOf(store: Parameters<Parameters<typeof show>[1]>[0]): Promise<QueuesApi> {
  const { QueuesApi } = await import('../../engine/api/queues.ts')
  const { readingParts } = await import('../reading-parts.ts')
  return new QueuesApi(readingParts(store))
}
