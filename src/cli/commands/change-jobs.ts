import type { Command } from 'commander'
import { SluiceError } from '../../base/errors.ts'
import type { BulkOptions, BulkResult } from '../../engine/api/bulk.ts'
import type { JobsApi } from '../../engine/api/jobs.ts'
import type { JobFilter } from '../../jobs/job-filter.ts'
import { groupDigits } from '../../policy/limits/policy-words.ts'
import type { Store } from '../../store/contract/store.ts'
import { confirm, progressBar } from '../ask.ts'
import { addFilterOptions, FILTER_HELP, type FilterFlags, filterOf } from '../filter-flags.ts'
import { instantOf } from '../times.ts'
import { addStoreOptions, show, type View, type ViewFlags, priorityOf } from '../view.ts'
import { printable } from '../words.ts'

interface ChangeFlags extends ViewFlags, FilterFlags {
  readonly dryRun?: true
  readonly yes?: true
}

type Change = (api: JobsApi, filter: JobFilter, options: BulkOptions) => Promise<BulkResult>
type ValuedChange = (...given: [...Parameters<Change>, value: string]) => Promise<BulkResult>

const INTERRUPTED = 130
/** Not every job that was named could be changed. */
const MISSED = 1
const EXITS = `Exit code: 0; 1 when there is no such store or job, or when its state does not allow it; 2 for a wrong option, or without
--yes where no person can be asked; 130 after Ctrl-C, which ends it after the batch at work.`
const MANY = `
Select jobs by their ids, or by a filter. Repeat the same command after it was interrupted: it goes on with what is left.
With --json: { matched, changed, stopped }.

${FILTER_HELP}

${EXITS}`
const ONE = `
With --json: { id, changed }.

${EXITS}`

/** Adds `sluice jobs retry`, `cancel`, `delete`, `move`, `reprioritize`, `promote` and `reschedule`. */
export function registerJobChanges(jobs: Command): void {
  const ids = (name: string, description: string): Command =>
    jobs.command(name).description(description).argument('[ids...]', 'these jobs; else give a filter')
  many(ids('retry', 'run discarded jobs again'), 'Retry', (api, ...how) => api.retryMany(...how))
  many(ids('cancel', 'cancel jobs that have not ended'), 'Cancel', (api, ...how) => api.cancelMany(...how))
  many(ids('delete', 'delete jobs that have ended'), 'Delete', (api, ...how) => api.deleteMany(...how))
  const valued = (name: string, value: string, description: string, verb: string, make: ValuedChange): Command =>
    withOptions(
      jobs
        .command(name)
        .description(description)
        .argument(value)
        .argument('[ids...]', 'these jobs; else give a filter'),
    ).action((to: string, given: string[], _: unknown, command: Command) =>
      change(given, command, verb, (api, filter, options) => make(api, filter, options, to)),
    )
  valued('move', '<queue>', 'move jobs that have not started to another queue', 'Move', (api, filter, options, to) =>
    api.moveMany(filter, { ...options, to }),
  )
  valued(
    'reprioritize',
    '<priority>',
    'give jobs that have not started another priority, -100 to 100; higher starts first',
    'Reprioritize',
    (api, filter, options, to) =>
      api.reprioritizeMany(filter, { ...options, priority: priorityOf(to, 'The priority') }),
  )
  one(jobs.command('promote').description('let a job that waits for its time start now'), [], (api, id) =>
    api.promote(id),
  )
  const reschedule = jobs.command('reschedule').description('let a job that has not started wait for another time')
  one(reschedule, ['time'], (api, id, time) => api.reschedule(id, instantOf(time ?? '')))
}

function withOptions(command: Command): Command {
  addFilterOptions(addStoreOptions(command))
  return command.option('--dry-run', 'only count the jobs').option('--yes', 'do not ask').addHelpText('after', MANY)
}

function many(command: Command, verb: string, make: Change): void {
  withOptions(command).action((given: string[], _: unknown, self: Command) => change(given, self, verb, make))
}

function change(ids: readonly string[], command: Command, verb: string, make: Change): Promise<void> {
  const flags = command.optsWithGlobals<ChangeFlags>()
  return show(flags, async (store): Promise<View> => {
    const filter = filterOf(flags, ids)
    if (Object.keys(filter).length === 0)
      throw new SluiceError(
        'cli.usage',
        'Name the jobs by their ids: the filter is empty. Or give one, as --state discarded.',
      )
    const api = await jobsApi(store)
    const { matched } = await make(api, filter, { dryRun: true })
    const result = flags.dryRun || matched === 0 ? null : await changed(api, { filter, matched, verb, flags }, make)
    const left = new Set(ids).size - (result?.changed ?? matched)
    if (left > 0 && result?.stopped !== true) process.exitCode = MISSED
    return {
      data: result ?? { matched, changed: 0, stopped: false },
      lines: () => [
        result === null
          ? `${groupDigits(matched)} jobs match.`
          : `${groupDigits(result.changed)} of ${groupDigits(result.matched)} jobs were changed${result.stopped ? ', then it was interrupted' : ''}.`,
        ...(process.exitCode === MISSED
          ? [`${groupDigits(left)} of the ids belong to no job, or to one whose state does not allow it.`]
          : []),
      ],
    }
  })
}

async function changed(
  api: JobsApi,
  what: { readonly filter: JobFilter; readonly matched: number; readonly verb: string; readonly flags: ChangeFlags },
  make: Change,
): Promise<BulkResult> {
  await confirm(`${what.verb} ${groupDigits(what.matched)} jobs?`, { ...what.flags, counts: true })
  const interrupt = new AbortController()
  const stop = (): void => interrupt.abort()
  process.once('SIGINT', stop).once('SIGTERM', stop)
  const bar = progressBar()
  try {
    const result = await make(api, what.filter, {
      signal: interrupt.signal,
      onProgress: (progress) => bar.draw(progress.changed, progress.matched),
    })
    if (result.stopped) process.exitCode = INTERRUPTED
    return result
  } finally {
    bar.end()
    process.off('SIGINT', stop).off('SIGTERM', stop)
  }
}

function one(
  command: Command,
  more: readonly string[],
  make: (api: JobsApi, id: string, value: string | undefined) => Promise<boolean>,
): void {
  command.argument('<id>')
  for (const name of more)
    command.argument(`<${name}>`, 'in ISO 8601, as 2030-01-31T12:00:00Z, or a time from now, as 10m')
  addStoreOptions(command)
    .addHelpText('after', ONE)
    .action((id: string) => {
      const [, value] = command.args
      return show(command.optsWithGlobals(), async (store): Promise<View> => {
        if (!(await make(await jobsApi(store), id, value)))
          throw new SluiceError('job.not_waiting', `The job ${printable(id)} does not wait for a time or for its turn.`)
        return { data: { id, changed: true }, lines: () => [`The job ${printable(id)} was changed.`] }
      })
    })
}

async function jobsApi(store: Store): Promise<JobsApi> {
  const { JobsApi } = await import('../../engine/api/jobs.ts')
  const { readingParts } = await import('../reading-parts.ts')
  return new JobsApi(readingParts(store))
}
