import { type Command, Option } from 'commander'
import type { JobFilter } from '../jobs/job-filter.ts'
import { filterPair, jobFilterOfTexts } from '../jobs/job-filter-text.ts'
import { requireName } from './view.ts'

/** The options that select jobs. */
export interface FilterFlags {
  readonly state?: string
  readonly queue?: string
  readonly task?: string
  readonly filter?: readonly string[]
}

/** Explains `--filter`. */
export const FILTER_HELP = `Filters: state, queue, task, tag, meta.NAME, text, since, until, limit, key, uniqueKey, flow, schedule, error, id.
All of them must match: --filter state=discarded --filter since=1d --filter "error=timed out"`

/** Adds `--state`, `--queue`, `--task` and `--filter`. */
export function addFilterOptions(command: Command): Command {
  const filters = (text: string, before: readonly string[] = []): readonly string[] => [...before, text]
  return command
    .option('--state <states>', 'only jobs in this state, or in one of several: available,active')
    .option('--queue <queue>', 'only jobs of this queue')
    .option('--task <task>', 'only jobs of this task')
    .addOption(
      new Option('--filter <name=value>', 'only jobs that match; may be given several times').argParser(filters),
    )
}

/** Filters by names. None is empty. */
const NAMES: ReadonlySet<string> = new Set(['state', 'queue', 'task', 'limit', 'flow', 'schedule', 'id'])

/**
 * The filter that these options and ids make.
 * @throws {SluiceError} `cli.usage` for an empty name, as of an unset variable of a shell; `option.invalid`,
 * `duration.invalid`
 */
export function filterOf({ state, queue, task, filter = [] }: FilterFlags, ids: readonly string[] = []): JobFilter {
  const named = Object.entries({ state, queue, task }).flatMap(([name, value]): [string, string][] =>
    value === undefined ? [] : [[name, value]],
  )
  const pairs = filter.map((text) => filterPair(text, '--filter'))
  for (const [name, value] of pairs) if (NAMES.has(name)) requireName(value, `--filter ${name}=`)
  return jobFilterOfTexts([...named, ...pairs, ...ids.map((id) => ['id', id] as const)], '--filter')
}
