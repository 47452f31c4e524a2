import type { Duration } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { checkOptions, show } from '../../base/options.ts'
import { checkInstant } from '../../base/instant.ts'
import { isName, LONGEST_NAME } from '../../base/text.ts'
import type { NewJob } from '../../jobs/job.ts'
import { duesWithin, recurrenceOf } from '../../jobs/recurrence.ts'
import type { NewSchedule, OnMissed, Overlap } from '../../jobs/schedule.ts'
import type { LimitPolicy } from '../../policy/limits/limit.ts'
import type { Rule } from '../../policy/rules/rule.ts'
import type { EnqueueOptions, TaskDefinition } from './task.ts'

interface Every {
  /** The distance of due times, at least 10 ms, by the store's clock. Steps of the wall clock do not move it. */
  every: Duration
  cron?: never
  timezone?: never
}

interface ByCalendar {
  /** 5 fields, 6 with seconds first, or a nickname such as `@daily`; by the wall clock. */
  cron: string
  /** An IANA name; default UTC. */
  timezone?: string
  every?: never
}

/** The due times of a task, and the options of its jobs. */
export type ScheduleOptions<I> = (Every | ByCalendar) &
  Pick<EnqueueOptions<I>, 'queue' | 'priority' | 'weight' | 'limits' | 'fairKey' | 'share' | 'meta' | 'tags'> & {
    /** The name of the schedule, at most 255 characters; default: the task's name. */
    name?: string
    /** The first occurrence is due at once, when the schedule is first registered; default false. */
    immediately?: boolean
    /**
     * The end of the series by the wall clock, exclusive; default: none. Occurrences that cannot start before are
     * skipped.
     */
    until?: Date
    /** The series ends after this number of runs. Skipped occurrences are not runs. */
    maxRuns?: number
    /**
     * The treatment of an occurrence that is due before the last one has ended: `skip` (default) drops it, `allow` runs
     * both.
     */
    overlap?: Overlap
    /**
     * The treatment of occurrences that were due while no process ran: `skip` (default), or `catchUp`, which runs the
     * latest 1,000 of them.
     */
    onMissed?: OnMissed
  }

const OWN: ReadonlySet<string> = new Set([
  'name',
  'every',
  'cron',
  'timezone',
  'immediately',
  'until',
  'maxRuns',
  'overlap',
  'onMissed',
])
const OF_JOB: ReadonlySet<string> = new Set([
  'queue',
  'priority',
  'weight',
  'limits',
  'fairKey',
  'share',
  'meta',
  'tags',
])
const HOUR_US = 3_600_000_000
const CALENDAR_US = { hour: HOUR_US, day: 24 * HOUR_US, week: 168 * HOUR_US, month: 720 * HOUR_US } as const

/**
 * The options of a schedule that apply to each of its jobs. @throws {SluiceError} `schedule.invalid` for an unknown
 * option
 */
export function jobOptions(task: TaskDefinition, options: ScheduleOptions<never>): EnqueueOptions<never> {
  checkOptions(options, [...OWN, ...OF_JOB], `schedule of ${task.name}`, { code: 'schedule.invalid' })
  return Object.fromEntries(Object.entries(options).filter(([name]) => OF_JOB.has(name)))
}

/**
 * A schedule in its stored form. @param job the template of its jobs
 * @throws {SluiceError} `schedule.invalid`, `duration.invalid`
 */
export function toSchedule(options: ScheduleOptions<never>, job: NewJob): NewSchedule {
  const { name = job.task, immediately = false, until, maxRuns, overlap = 'skip', onMissed = 'skip' } = options
  if (!isName(name))
    throw invalid(
      `schedule of ${job.task}`,
      `the name is invalid. Expected 1 to ${LONGEST_NAME} characters, without NUL and half surrogate pairs.`,
    )
  const what = `schedule ${name}`
  if (typeof immediately !== 'boolean')
    throw invalid(what, `immediately is invalid: ${show(immediately)}. Expected true or false.`)
  if (maxRuns !== undefined && !(Number.isSafeInteger(maxRuns) && maxRuns >= 1))
    throw invalid(what, `maxRuns is invalid: ${show(maxRuns)}. Expected a whole number of at least 1.`)
  if (until !== undefined && !(until instanceof Date && !Number.isNaN(until.getTime())))
    throw invalid(what, `until is invalid: ${show(until)}. Expected a valid Date.`)
  if (overlap !== 'skip' && overlap !== 'allow')
    throw invalid(what, `overlap is invalid: ${show(overlap)}. Expected skip or allow.`)
  if (onMissed !== 'skip' && onMissed !== 'catchUp')
    throw invalid(what, `onMissed is invalid: ${show(onMissed)}. Expected skip or catchUp.`)
  const { task, queue, priority, input, uses, maxAttempts, extra, fairKey, share } = job
  return {
    name,
    recurrence: recurrenceOf(options, what),
    immediately,
    untilMs: until === undefined ? null : checkInstant(until.getTime(), `${what}: until`),
    maxRuns: maxRuns ?? null,
    overlap,
    onMissed,
    job: {
      task,
      queue,
      priority,
      input,
      uses,
      maxAttempts,
      extra,
      ...(fairKey !== undefined && { fairKey }),
      ...(share !== undefined && { share }),
      ...(job.terms && { terms: job.terms }),
    },
  }
}

/** The limit that one schedule alone exceeds over one period of the limit from a due time on; null: none. */
export function slowerLimit(
  { recurrence, job }: NewSchedule,
  dueUs: number,
  policyOf: (limit: string) => LimitPolicy | null,
): string | null {
  for (const { limit, weight } of job.uses) {
    const policy = policyOf(limit)
    for (const rule of [policy?.rule, policy?.spacing]) {
      if (!rule) continue
      const { units, perUs } = allowanceOf(rule)
      const starts = rule.kind === 'spacing' ? 1 : Math.floor(units / weight)
      if (duesWithin(recurrence, dueUs, perUs, starts + 1) > starts) return limit
    }
  }
  return null
}

/** The long-run allowance of a rule. */
function allowanceOf(rule: Rule): { readonly units: number; readonly perUs: number } {
  if (rule.kind === 'rate') return { units: rule.rate, perUs: rule.periodUs }
  if (rule.kind === 'sliding') return { units: rule.max, perUs: rule.periodUs }
  if (rule.kind === 'spacing') return { units: 1, perUs: rule.everyUs }
  return {
    units: rule.max,
    perUs: rule.window.align === 'epoch' ? rule.window.periodUs : CALENDAR_US[rule.window.unit],
  }
}

function invalid(what: string, why: string): SluiceError {
  return new SluiceError('schedule.invalid', `${what}: ${why}`)
}
