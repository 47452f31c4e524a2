import { isDeepStrictEqual } from 'node:util'
import { SluiceError } from '../../base/errors.ts'
import type { NewJob } from '../../jobs/job.ts'
import type { ScheduleRecord } from '../../jobs/schedule.ts'
import type { LimitDefinition } from '../../policy/limits/limit.ts'
import type { Store } from '../../store/contract/store.ts'
import { linesIn } from '../ndjson.ts'
import { bad, readLine, type ReadLine } from './lines.ts'
import { scheduleLine } from './write-lines.ts'

/** The most jobs of one transaction. */
const AT_ONCE = 200

/** The result of an import. */
export interface Imported {
  limits: number
  schedules: number
  jobs: number
  /** Jobs that the store has already, by their id or their unique key. */
  skipped: number
  /** The limits and schedules that the store has with another definition, which stays: `limit crm`. */
  readonly kept: readonly string[]
}

/** How an import treats what is there. */
export interface ImportOptions {
  /** `refuse`: nothing is imported. `skip`: the others are, and the store keeps its own. */
  readonly duplicates: 'refuse' | 'skip'
  readonly dryRun: boolean
  readonly onProgress?: (done: number, all: number) => void
}

type Numbered<T> = T & { readonly line: number }
type JobLine = Numbered<Extract<ReadLine, { kind: 'job' }>>

/** Reads all lines of a file, or of standard input (`-`). @throws {SluiceError} `cli.usage`, with the number of the line */
export async function linesOf(file: string): Promise<Numbered<ReadLine>[]> {
  const found: Numbered<ReadLine>[] = []
  for await (const { line, text } of linesIn(file)) found.push({ ...readLine(text, line), line })
  return found
}

/**
 * Stores limits, then schedules, then jobs, the last of the file first, so that the oldest of an export arrives first.
 * All lines are checked before any is stored.
 * @throws {SluiceError} `cli.usage`, `limit.unknown`, `unique.conflict`
 */
export async function importLines(
  store: Store,
  lines: readonly Numbered<ReadLine>[],
  { duplicates, dryRun, onProgress }: ImportOptions,
): Promise<Imported> {
  const stored = await store.limits()
  const known = new Set([...stored, ...limitsIn(lines)].map(({ name }) => name))
  for (const line of lines) checkLimits(line, known)
  refuseTwice(lines)
  const jobs = lines.flatMap((line) => (line.kind === 'job' ? [line] : [])).toReversed()
  const others = otherDefinitions(lines, stored, await store.schedules())
  if (others[0] && duplicates === 'refuse') throw definedOtherwise(others[0], others.length)
  const { fresh, held } = await sorted(store, jobs)
  if (held[0] && duplicates === 'refuse') throw taken(held[0], held.length)
  const own = lines.filter((line) => !others.includes(line))
  const limits = limitsIn(own)
  const schedules = own.flatMap((line) => (line.kind === 'schedule' ? [line] : []))
  const kept = others.map((line) => wordsOf(line))
  const done: Imported = { limits: limits.length, schedules: schedules.length, jobs: 0, skipped: held.length, kept }
  if (dryRun) return { ...done, jobs: fresh.length }
  if (limits.length > 0) await store.define(limits)
  for (const { schedule, paused } of schedules) {
    await store.schedule(schedule)
    if (paused) await store.pauseSchedule(schedule.name, true)
  }
  for (let from = 0; from < fresh.length; from += AT_ONCE) {
    const stored = await pushed(store, fresh.slice(from, from + AT_ONCE), duplicates)
    done.jobs += stored.jobs
    done.skipped += stored.skipped
    onProgress?.(done.jobs + done.skipped, jobs.length)
  }
  return done
}

function checkLimits(line: Numbered<ReadLine>, known: ReadonlySet<string>): void {
  const missing = limitsOf(line).find((limit) => !known.has(limit))
  if (missing === undefined) return
  throw new SluiceError(
    'limit.unknown',
    `Line ${line.line} needs the limit ${missing}, which neither the file nor the store defines. Nothing was imported.`,
  )
}

/** The names of the limits that a line needs. */
function limitsOf(line: ReadLine): readonly string[] {
  if (line.kind === 'limit') return line.limit.policy.of ? [line.limit.policy.of.limit] : []
  const { uses } = line.kind === 'job' ? line.job : line.schedule.job
  return uses.map(({ limit }) => limit)
}

/** Refuses two lines for one limit, one schedule or one job. */
function refuseTwice(lines: readonly Numbered<ReadLine>[]): void {
  const seen = new Map<string, number>()
  for (const { line, ...read } of lines) {
    const words = wordsOf(read)
    const first = seen.get(words)
    if (first !== undefined)
      throw bad(
        line,
        `line ${first} ${read.kind === 'job' ? 'has the same id' : `defines the ${words}, too`}. Remove one`,
      )
    seen.set(words, line)
  }
}

function wordsOf(line: ReadLine): string {
  if (line.kind === 'job') return `job ${line.job.id}`
  return line.kind === 'limit' ? `limit ${line.limit.name}` : `schedule ${line.schedule.name}`
}

function limitsIn(lines: readonly ReadLine[]): LimitDefinition[] {
  return lines.flatMap((line) => (line.kind === 'limit' ? [line.limit] : []))
}

/** The lines of limits and schedules that the store has with another definition. */
function otherDefinitions(
  lines: readonly Numbered<ReadLine>[],
  limits: readonly LimitDefinition[],
  schedules: readonly ScheduleRecord[],
): Numbered<ReadLine>[] {
  const limitBy = new Map(limits.map((each) => [each.name, each]))
  const scheduleBy = new Map(schedules.map((each) => [each.name, each]))
  const isOther = (line: ReadLine): boolean => {
    if (line.kind === 'job') return false
    if (line.kind === 'limit') {
      const there = limitBy.get(line.limit.name)
      return there !== undefined && !isDeepStrictEqual(there.policy, line.limit.policy)
    }
    // The definition does not include a pause: an import that is interrupted may store a schedule without it.
    const there = scheduleBy.get(line.schedule.name)
    return there !== undefined && !isDeepStrictEqual(scheduleLine(there, false), scheduleLine(line.schedule, false))
  }
  return lines.filter(isOther)
}

function definedOtherwise(line: Numbered<ReadLine>, count: number): SluiceError {
  const others = count > 1 ? ` (and ${count - 1} more)` : ''
  return new SluiceError(
    'unique.conflict',
    `Line ${line.line}: the store has another definition of the ${wordsOf(line)}${others}. Add --duplicates skip to keep those of the store. Nothing was imported.`,
  )
}

/** The jobs that the store has not, and those whose ids it has. */
async function sorted(store: Store, jobs: readonly JobLine[]): Promise<{ fresh: JobLine[]; held: JobLine[] }> {
  const ids = new Set<string>()
  for (let from = 0; from < jobs.length; from += AT_ONCE) {
    const some = jobs.slice(from, from + AT_ONCE).map(({ job }) => job.id)
    for (const { id } of await store.list({ ids: some, limit: AT_ONCE })) ids.add(id)
  }
  return { fresh: jobs.filter(({ job }) => !ids.has(job.id)), held: jobs.filter(({ job }) => ids.has(job.id)) }
}

/** Stores jobs in one transaction, without those that the store turns out to have. */
async function pushed(
  store: Store,
  jobs: readonly JobLine[],
  duplicates: ImportOptions['duplicates'],
): Promise<{ jobs: number; skipped: number }> {
  const left = [...jobs]
  while (left.length > 0) {
    const answer = await store.push(
      left.map(({ job }): NewJob => job),
      [],
    )
    if (answer.kind === 'stored') break
    const [refused] = left.splice(answer.at, 1)
    if (!refused) break
    if (answer.why.kind === 'full')
      throw new SluiceError(
        'cli.usage',
        `Line ${refused.line}: the queue ${answer.why.queue} is full at ${answer.why.bound} jobs. Raise its bound by sluice queues bound, then import again with --duplicates skip.`,
      )
    if (duplicates === 'refuse') throw taken(refused, 1)
  }
  return { jobs: left.length, skipped: jobs.length - left.length }
}

function taken({ job, line }: JobLine, count: number): SluiceError {
  const others = count > 1 ? ` (and ${count - 1} more)` : ''
  return new SluiceError(
    'unique.conflict',
    `Line ${line}: the store has the job ${job.id}, or another one with its unique key${others}. Add --duplicates skip to leave such jobs out.`,
  )
}
