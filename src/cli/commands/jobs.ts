import type { Command } from 'commander'
import { SluiceError } from '../../base/errors.ts'
import type { JobExplanation } from '../../engine/api/job-explanation.ts'
import type { JobsApi } from '../../engine/api/jobs.ts'
import type { FailedAttempt, JobLogEntry, JobView, JobWithFailures } from '../../engine/api/job-view.ts'
import type { JobListQuery } from '../../engine/api/job-page.ts'
import { STATES } from '../../jobs/job-state.ts'
import type { Store } from '../../store/contract/store.ts'
import { registerJobChanges } from './change-jobs.ts'
import type { Paint } from '../demo/paint.ts'
import { addFilterOptions, FILTER_HELP, type FilterFlags, filterOf } from '../filter-flags.ts'
import { type Column, tableOf } from '../table.ts'
import { addViewOptions, reportErrors, show, type View, type ViewFlags, wholeOf } from '../view.ts'
import { inWords, printable } from '../words.ts'

interface JobsFlags extends ViewFlags, FilterFlags {
  readonly limit: string
}

const DETAILS = `
Without an id: jobs, newest first. With an id: that job, and why it waits.

${FILTER_HELP}

States: ${STATES.join(', ')}. A job that a closed budget holds back is available, and its line
says when the budget lets the next go on.

Exit code: 0; 1 when there is no such store or job; 2 for a wrong option.`

/** Adds `sluice jobs`. */
export function registerJobs(program: Command): void {
  const command = program
    .command('jobs')
    .description('the jobs of a store, or one job and why it waits')
    .argument('[id]', 'one job: its state, its limits, its place and its expected start')
    // So that the commands below it may have options of the same name.
    .enablePositionalOptions()
    .option('--limit <count>', 'so many jobs, 1 to 1000', '20')
  registerJobChanges(command)
  addFilterOptions(addViewOptions(command))
    .addHelpText('after', DETAILS)
    .action((id: string | undefined, flags: JobsFlags, self: Command) =>
      reportErrors(async () => {
        if (id !== undefined) refuseFilters(self)
        return show(flags, (store) => look(store, id, flags))
      }),
    )
}

/** A filter beside an id would be ignored. @throws {SluiceError} `cli.usage` */
function refuseFilters(command: Command): void {
  const filters = ['state', 'queue', 'task', 'filter', 'limit']
  const given = filters.find((name) => command.getOptionValueSource(name) === 'cli')
  if (given !== undefined)
    throw new SluiceError('cli.usage', `--${given} selects jobs, and an id names one. Leave one of them out.`)
}

async function look(store: Store, id: string | undefined, flags: JobsFlags): Promise<View> {
  const { JobsApi } = await import('../../engine/api/jobs.ts')
  const { readingParts } = await import('../reading-parts.ts')
  const jobs = new JobsApi(readingParts(store))
  const nowMs = store.nowUs() / 1000
  return id === undefined ? list(jobs, flags, nowMs) : one(await jobs.explain(id), await jobs.get(id), nowMs)
}

async function list(jobs: JobsApi, flags: JobsFlags, nowMs: number): Promise<View> {
  const query: JobListQuery = {
    limit: wholeOf(flags.limit, '--limit'),
    ...filterOf(flags),
  }
  const found = await jobs.list(query)
  return {
    data: found,
    lines: (paint) =>
      found.length === 0
        ? ['No such jobs.']
        : tableOf(
            COLUMNS,
            found.map((job) => row(job, nowMs)),
            paint,
          ),
  }
}

const COLUMNS: readonly Column[] = [
  { head: 'id' },
  { head: 'task' },
  { head: 'queue' },
  { head: 'state' },
  { head: 'priority', right: true },
  { head: 'attempt', right: true },
  { head: 'created', right: true },
  { head: 'budget', right: true },
]

function row(job: JobView, nowMs: number): string[] {
  return [
    job.id,
    job.task,
    job.queue,
    job.state,
    String(job.priority),
    `${job.attempt} of ${job.maxAttempts}`,
    `${inWords(nowMs - job.createdAt.getTime())} ago`.replace('now ago', 'now'),
    job.throttledUntil ? `in ${inWords(job.throttledUntil.getTime() - nowMs)}`.replace('in now', 'now') : '',
  ]
}

function one(found: JobExplanation, job: JobWithFailures | null, nowMs: number): View {
  const { failures = [], logs = [], progress = null } = job ?? {}
  return {
    data: { ...found, failures, progress, logs },
    lines: (paint) => {
      const facts = [...factsOf(found, nowMs), ...progressFacts(progress)]
      const width = Math.max(...facts.map(([name]) => name.length))
      return [
        ...facts.map(([name, value]) => `${paint('dim', name.padEnd(width))}  ${printable(value)}`),
        ...budgetLines(found, width, paint),
        ...failures.flatMap((each) => failureLines(each, paint)),
        ...logLines(logs, paint),
        '',
        printable(found.words),
      ]
    },
  }
}

/** The error of an attempt, with its stack and its causes. */
function failureLines({ attempt, at, message, stack, causes }: FailedAttempt, paint: Paint): string[] {
  const head = `attempt ${attempt} failed at ${at.toISOString()}: ${printable(message)}`
  // The first line of a stack says the error again.
  const frames = (stack ?? '').split('\n').slice(1)
  const behind = causes.map((cause) => `caused by ${printable(cause.message)}`)
  return ['', paint('red', head), ...frames.map((line) => paint('dim', printable(line))), ...behind]
}

function progressFacts(progress: unknown): [string, string][] {
  if (progress === null) return []
  return [['progress', typeof progress === 'number' ? `${Math.round(progress * 100)} %` : JSON.stringify(progress)]]
}

/** The lines that the runs have logged. */
function logLines(logs: readonly JobLogEntry[], paint: Paint): string[] {
  const colours = { debug: 'dim', info: 'dim', warn: 'yellow', error: 'red' } as const
  const lines = logs.map(({ at, level, attempt, message, fields }) => {
    const text = fields ? `${message} ${JSON.stringify(fields)}` : message
    return `${paint(colours[level], `${at.toISOString()} ${level.padEnd(5)} ${attempt}`)}  ${printable(text)}`
  })
  return lines.length === 0 ? [] : ['', ...lines]
}

function factsOf(
  { job, position, linePosition, since, until, expectedStart, exact, givenUpAt }: JobExplanation,
  nowMs: number,
): [string, string][] {
  const at = (date: Date): string =>
    date.getTime() > nowMs ? `${date.toISOString()} (in ${inWords(date.getTime() - nowMs)})` : date.toISOString()
  const facts: [string, string | null][] = [
    ['job', job.id],
    ['task', job.task],
    ['queue', job.queue],
    ['state', job.state],
    ['priority', String(job.priority)],
    ['attempt', `${job.attempt} of ${job.maxAttempts}`],
    ['created', at(job.createdAt)],
    ['since', since && job.state === 'available' ? at(since) : null],
    ['started', job.startedAt && at(job.startedAt)],
    ['finished', job.finishedAt && at(job.finishedAt)],
    [
      'position',
      position === null
        ? null
        : `${position} of its lane${linePosition === null ? '' : `, ${linePosition} of its budget's line`}`,
    ],
    ['next start', until && at(until)],
    ['expected start', expectedStart && `${exact ? '' : 'no sooner than '}${at(expectedStart)}`],
    ['given up at', givenUpAt && at(givenUpAt)],
    ['error', job.error && `${job.error.code}: ${job.error.message}`],
  ]
  return facts.flatMap(([name, value]): [string, string][] => (value === null ? [] : [[name, value]]))
}

/** Every budget that must admit the job, with a mark at the one that it waits for. */
function budgetLines({ limits, waitsOn }: JobExplanation, width: number, paint: Paint): string[] {
  return limits.map(({ limit, key, weight }, i) => {
    const holds = waitsOn?.limit === limit && waitsOn.key === key ? paint('yellow', ' holds it back') : ''
    const units = weight === 1 ? '' : `, ${weight} units`
    const name = paint('dim', (i === 0 ? 'limits' : '').padEnd(width))
    return `${name}  ${printable(key === null ? limit : `${limit} for ${key}`)}${units}${holds}`
  })
}
