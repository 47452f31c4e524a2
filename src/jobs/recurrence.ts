import { Cron } from 'croner'
import { type Duration, durationUs } from '../base/duration.ts'
import { SluiceError } from '../base/errors.ts'
import { show } from '../base/options.ts'
import { messageOf } from '../base/thrown.ts'
import { isTimezone } from '../policy/rules/calendar.ts'

/** The grid of a schedule: even distances on the store's clock, or a cron expression on the wall clock of a time zone. */
export type Recurrence =
  | { readonly kind: 'every'; readonly everyUs: number }
  | { readonly kind: 'cron'; readonly cron: string; readonly timezone: string }

/** How often a schedule is due: one of `every` and `cron`. */
export interface RecurrenceOptions {
  readonly every?: Duration | undefined
  readonly cron?: string | undefined
  readonly timezone?: string | undefined
}

const SHORTEST_US = 10_000
const LONGEST_CRON = 255

/**
 * Checks how often a schedule is due. `every` is at least 10 ms. `cron` has five fields, or six with seconds first, or
 * is a nickname such as `@daily`; `timezone` is an IANA name, UTC by default.
 *
 * @param what names the schedule in the message.
 * @throws {SluiceError} `schedule.invalid`, also for an expression that no date matches
 * @throws {SluiceError} `duration.invalid`
 */
export function recurrenceOf({ every, cron, timezone }: RecurrenceOptions, what: string): Recurrence {
  if (every === undefined && cron === undefined)
    throw invalid(what, 'neither every nor cron is there. Expected one of them.')
  if (every !== undefined && cron !== undefined)
    throw invalid(what, 'every and cron exclude each other. Expected one of them.')
  if (every !== undefined) {
    if (timezone !== undefined)
      throw invalid(what, 'timezone belongs to cron, and every is a length of time. Remove timezone.')
    const everyUs = durationUs(every, `every of ${what}`)
    if (everyUs < SHORTEST_US)
      throw invalid(what, `every is invalid: ${everyUs / 1000} ms. Expected at least ${SHORTEST_US / 1000} ms.`)
    return { kind: 'every', everyUs }
  }
  const recurrence = { kind: 'cron', cron: cronText(cron, what), timezone: zoneOf(timezone, what) } as const
  let next: number | null
  try {
    next = firstDueUs(recurrence, 0, 0)
  } catch (cause) {
    if (!isTimezone(recurrence.timezone)) throw wrongZone(timezone, what)
    const why = messageOf(cause)
    throw invalid(what, `cron is invalid: ${JSON.stringify(recurrence.cron)} in ${recurrence.timezone}. ${why}`, cause)
  }
  if (next === null)
    throw invalid(
      what,
      `cron is invalid: ${JSON.stringify(recurrence.cron)} is never due. Expected an expression that a date matches.`,
    )
  return recurrence
}

/**
 * The first due time at or after `fromUs`; null if there is none.
 *
 * Over a daylight saving change, a cron with one time of day is due once. It is due at the first instant after a gap,
 * and in the first of two equal hours. A cron with several times (`*`, lists, steps) skips a gap and is due in both
 * hours.
 *
 * @param anchorUs any due time of an `every`, before or after; a cron needs none.
 */
export function firstDueUs(recurrence: Recurrence, anchorUs: number, fromUs: number): number | null {
  if (recurrence.kind === 'every') {
    const { everyUs } = recurrence
    return anchorUs + Math.ceil((fromUs - anchorUs) / everyUs) * everyUs
  }
  return nextUs(cronOf(recurrence), fromUs - 1)
}

/**
 * The latest due times from `dueUs` to `toUs`, both included, at most `most`, oldest first. `dueUs` counts even if it
 * is off the grid.
 */
export function latestDuesUs(recurrence: Recurrence, dueUs: number, toUs: number, most: number): number[] {
  if (recurrence.kind === 'every') {
    const { everyUs } = recurrence
    const last = Math.floor((toUs - dueUs) / everyUs)
    const first = Math.max(0, last - most + 1)
    return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => dueUs + (first + i) * everyUs)
  }
  const cron = cronOf(recurrence)
  const dues: number[] = []
  for (let us: number | null = dueUs; us !== null && us <= toUs; us = nextUs(cron, us)) {
    dues.push(us)
    if (dues.length > most) return latestUs(cron, toUs, most)
  }
  return dues
}

/** Counts the due times in a half-open interval of this length that begins with a due time, up to `most`. */
export function duesWithin(recurrence: Recurrence, dueUs: number, lengthUs: number, most: number): number {
  if (recurrence.kind === 'every') return Math.min(most, Math.ceil(lengthUs / recurrence.everyUs))
  const cron = cronOf(recurrence)
  let count = 0
  for (let us: number | null = dueUs; us !== null && us < dueUs + lengthUs && count < most; count++)
    us = nextUs(cron, us)
  return count
}

/** Croner returns times strictly after its argument. Due times are whole seconds, so ms are exact enough. */
function nextUs(cron: Cron, afterUs: number): number | null {
  const next = cron.nextRun(new Date(Math.floor(afterUs / 1000)))
  return next && next.getTime() * 1000
}

/** The last `count` due times up to an instant, found backwards, since any number may precede them. */
function latestUs(cron: Cron, toUs: number, count: number): number[] {
  const latest = cron.previousRuns(count, new Date(Math.floor(toUs / 1000) + 1))
  return latest.map((date) => date.getTime() * 1000).toSorted((a, b) => a - b)
}

function cronText(cron: unknown, what: string): string {
  if (typeof cron !== 'string' || cron.length > LONGEST_CRON)
    throw invalid(what, `cron is invalid. Expected a text of at most ${LONGEST_CRON} characters.`)
  const text = cron.trim().replaceAll(/\s+/g, ' ')
  const fields = text.split(' ').length
  // Croner would take a date too, for one run.
  if (fields === 5 || fields === 6 || text.startsWith('@')) return text
  throw invalid(
    what,
    `cron is invalid: ${JSON.stringify(text)}. Expected 5 fields, 6 with seconds first, or a nickname such as @daily.`,
  )
}

/** Croner treats a value that is not text as an offset, and loops forever if that is not a number. */
function zoneOf(timezone: unknown, what: string): string {
  if (timezone === undefined) return 'UTC'
  if (typeof timezone === 'string' && timezone !== '') return timezone
  throw wrongZone(timezone, what)
}

function wrongZone(timezone: unknown, what: string): SluiceError {
  return invalid(what, `timezone is invalid: ${show(timezone)}. Expected an IANA name such as 'Europe/Paris'.`)
}

function cronOf({ cron, timezone }: Extract<Recurrence, { kind: 'cron' }>): Cron {
  return new Cron(cron, { timezone, mode: '5-or-6-parts', paused: true })
}

function invalid(what: string, why: string, cause?: unknown): SluiceError {
  return new SluiceError('schedule.invalid', `${what}: ${why}`, cause === undefined ? {} : { cause })
}
