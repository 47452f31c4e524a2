import { type CalendarUnit, calendarUnit, type Duration, durationUs, MAX_DURATION_US } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { didYouMean } from '../../base/nearest.ts'
import { brief, checkOptions, show } from '../../base/options.ts'
import { HIGHEST_PRIORITY, LOWEST_PRIORITY } from '../../base/priority.ts'
import { isTimezone } from '../rules/calendar.ts'
import { backendOf, slackUs } from './backend.ts'
import { calibration } from './calibration.ts'
import { quotient } from '../rules/exact.ts'
import type { Headroom, LimitPolicy, OnLimit, OnMissingKey } from './limit.ts'
import type { FixedRule, RateRule, Rule, SlidingRule, SpacingRule } from '../rules/rule.ts'
import { readPolicyText } from './policy-text.ts'
import type { Policy } from './policy.ts'
import { capacityOf } from '../rules/rule-state.ts'

/** The most that a rate, burst, max, concurrency or weight may be, so that their products with times stay manageable. */
export const MAX_UNITS = 1_000_000_000

const OPTIONS = [
  'onLimit',
  'maxWait',
  'retries',
  'guard',
  'scope',
  'backend',
  'onMissingKey',
  'headroom',
  'calibrate',
  'mode',
  'version',
  'concurrency',
] as const
const RULES = {
  rate: ['rate', 'per', 'burst', 'startEmpty', 'every'],
  window: ['window', 'max', 'per', 'timezone', 'every'],
  every: ['every'],
} as const
const ALL_FIELDS: readonly string[] = [...new Set([...Object.values(RULES).flat(), ...OPTIONS])]
/** The fields of a rule that may not stand beside a policy's text. */
const OF_TEXT: ReadonlySet<string> = new Set(
  Object.values(RULES)
    .flat()
    .filter((field) => field !== 'startEmpty'),
)

const NOMINAL_US: Readonly<Record<CalendarUnit, number>> = {
  hour: 3_600_000_000,
  day: 86_400_000_000,
  week: 7 * 86_400_000_000,
  month: 28 * 86_400_000_000,
}

/** The default guard of a sliding window: its period divided by this, and at most so many µs. */
const DEFAULT_GUARD = { divisor: 50, mostUs: 20_000 }

/** A policy as it came: from JSON or untyped code it may hold anything. */
export type Fields = Readonly<Record<string, unknown>>

/**
 * Checks a policy and fills in its defaults: durations become µs, guard included.
 *
 * @param policy an object, or its rules as text.
 * @param what names the limit in messages, as in `'limit crm'`.
 * @throws {SluiceError} `policy.invalid`, with the field, its value and the expected form
 */
export function normalisePolicy(policy: Policy | string, what: string): LimitPolicy {
  const given: unknown = typeof policy === 'string' ? { policy } : policy
  if (typeof given !== 'object' || given === null || Array.isArray(given))
    throw invalid(
      what,
      `the policy is invalid: ${show(given)}. Expected a text such as '10/s', or an object such as { rate: 10, per: '1s' }.`,
    )
  const { policy: text, ...fields } = definedFields(given)
  if (text === undefined) return normaliseFields(fields, what)
  return normaliseFields({ ...fields, ...fieldsOfText(text, fields, what) }, `${what}, policy ${show(text)}`)
}

/** The fields that a policy's text sets. The other fields of the policy may only add options. */
function fieldsOfText(text: unknown, beside: Fields, what: string): Fields {
  if (typeof text !== 'string')
    throw invalid(what, `policy is invalid: ${show(text)}. Expected a text such as '100/m'.`)
  const found = readPolicyText(text, what)
  const twice = Object.keys(beside).find((field) => OF_TEXT.has(field) || Object.hasOwn(found, field))
  if (twice === undefined) return { ...found }
  throw invalid(what, `${twice} (${show(beside[twice])}) stands beside the policy ${show(text)}. Write it in the text.`)
}

function normaliseFields(fields: Fields, what: string): LimitPolicy {
  const kind = ruleKind(fields, what)
  refuseUnknown(fields, kind, what)
  const backend = backendOf(fields, what)
  const defaultGuard = isDefaultGuard(fields)
  const givenGuardUs = guardOf(fields, kind, backend, what)
  const rule = ruleOf(fields, kind, givenGuardUs, what)
  const guardUs = defaultGuard ? defaultGuardUs(duration(fields, 'per', what, 1)) : givenGuardUs
  if (fields['scope'] === 'worker' && (fields['onLimit'] ?? 'wait') !== 'wait')
    throw invalid(
      what,
      `onLimit is invalid: ${show(fields['onLimit'])}. Expected 'wait' under scope 'worker', since another worker may have budget left.`,
    )
  const mode = oneOf<'enforce' | 'shadow'>(fields, 'mode', ['enforce', 'shadow'], what)
  if (mode === 'shadow' && backend !== null)
    throw invalid(what, "mode is invalid: 'shadow'. Expected 'enforce' beside backend, which keeps the budgets itself.")
  const concurrency = fields['concurrency'] === undefined ? null : whole(fields, 'concurrency', what, 0)
  return {
    rule,
    ...(kind !== 'every' && fields['every'] !== undefined && { spacing: spacingRule(fields, givenGuardUs, what) }),
    concurrency,
    onLimit: oneOf<OnLimit>(fields, 'onLimit', ['wait', 'reschedule', 'drop'], what),
    maxWaitUs: fields['maxWait'] === undefined ? null : duration(fields, 'maxWait', what, 0),
    retries: oneOf<'charge' | 'free'>(fields, 'retries', ['charge', 'free'], what),
    scope: oneOf<'fleet' | 'worker'>(fields, 'scope', ['fleet', 'worker'], what),
    ...(backend !== null && { backend }),
    version: fields['version'] === undefined ? 0 : whole(fields, 'version', what, 0, Number.MAX_SAFE_INTEGER),
    ...(fields['onMissingKey'] !== undefined && {
      onMissingKey: oneOf<OnMissingKey>(fields, 'onMissingKey', ['unlimited', 'fail', 'shared'], what),
    }),
    ...(fields['headroom'] !== undefined && { headroom: headroomOf(fields, rule, concurrency, what) }),
    ...(fields['calibrate'] !== undefined && { calibrate: calibration(fields['calibrate'], what) }),
    ...(guardUs > 0 && rule?.kind !== 'fixed' && { guardUs }),
    ...(defaultGuard && { defaultGuard }),
    ...(mode === 'shadow' && { mode }),
  }
}

/**
 * A sliding window is for a partner that counts exactly, and a start reaches it a little later or sooner than the last
 * one did. So a window whose policy names no guard is 2 % longer, by at most 20 ms.
 */
function defaultGuardUs(periodUs: number): number {
  return Math.min(DEFAULT_GUARD.mostUs, Math.floor(periodUs / DEFAULT_GUARD.divisor))
}

/** Whether the policy leaves the guard of its sliding window to the default. */
function isDefaultGuard(fields: Fields): boolean {
  return fields['guard'] === undefined && fields['window'] === 'sliding' && fields['backend'] === undefined
}

/** The guard that the policy names. A start that a backend has paid for may be late by the slack, so it is at least that. */
function guardOf(fields: Fields, kind: keyof typeof RULES | null, backend: string | null, what: string): number {
  const guardUs = fields['guard'] === undefined ? 0 : duration(fields, 'guard', what, 0)
  if (backend === null || kind === null) return guardUs
  const slack = slackUs(periodOf(fields, kind, what))
  if (fields['guard'] !== undefined || kind !== 'window') return Math.max(guardUs, slack)
  return fields['window'] === 'sliding' ? Math.max(defaultGuardUs(periodOf(fields, kind, what)), slack) : slack
}

/** The shortest time that the policy names; of a calendar window its usual length. */
function periodOf(fields: Fields, kind: keyof typeof RULES, what: string): number {
  const unit = kind === 'window' && fields['timezone'] !== undefined ? calendarUnit(String(fields['per'])) : null
  const perUs = unit === null ? (kind === 'every' ? Infinity : duration(fields, 'per', what, 1)) : NOMINAL_US[unit]
  return fields['every'] === undefined ? perUs : Math.min(perUs, duration(fields, 'every', what, 1))
}

function definedFields(policy: object): Fields {
  return Object.fromEntries(Object.entries(policy).filter(([, value]) => value !== undefined))
}

function ruleKind(fields: Fields, what: string): keyof typeof RULES | null {
  if (fields['rate'] !== undefined && fields['window'] !== undefined)
    throw invalid(what, 'rate and window exclude each other. Define one limit for each, and list both.')
  // `every`, the last, may also join the others. Alone it is the rule.
  return (Object.keys(RULES) as (keyof typeof RULES)[]).find((each) => fields[each] !== undefined) ?? null
}

function refuseUnknown(fields: Fields, kind: keyof typeof RULES | null, what: string): void {
  const allowed: readonly string[] = kind === null ? OPTIONS : [...RULES[kind], ...OPTIONS]
  const named = Object.keys(fields)
  // A misspelt field first: without it the others may lack their rule.
  const unknown = named.find((field) => field !== 'of' && !ALL_FIELDS.includes(field))
  const field = unknown ?? named.find((each) => !allowed.includes(each))
  if (field === 'of')
    throw invalid(
      what,
      "of names a common limit. Only limit(name, policy) in code and a server's limits can do that. Remove it.",
    )
  if (unknown !== undefined) {
    const known = kind === null ? ALL_FIELDS : allowed
    const hint = didYouMean(unknown, known)
    throw invalid(
      what,
      `${brief(unknown)} (${show(fields[unknown])}) is not a field of a policy${hint}Expected ${known.join(', ')}.`,
    )
  }
  if (kind === null && fields['max'] !== undefined)
    throw invalid(what, `max needs a window. Add window: 'sliding' or 'fixed'.`)
  if (field !== undefined) {
    const rule = kind === null ? 'a policy without rate, window or every' : `a policy with ${kind}`
    throw invalid(what, `${field} (${show(fields[field])}) does not belong in ${rule}. Remove it.`)
  }
  if (kind === null && fields['concurrency'] === undefined)
    throw invalid(
      what,
      'the policy has no rule. Expected { rate, per }, { window, max, per }, { every } or { concurrency }.',
    )
}

function ruleOf(fields: Fields, kind: keyof typeof RULES | null, guardUs: number, what: string): Rule | null {
  if (kind === 'rate') return rateRule(fields, guardUs, what)
  if (kind === 'window') return windowRule(fields, guardUs, what)
  if (kind === 'every') return spacingRule(fields, guardUs, what)
  if (guardUs > 0) throw invalid(what, 'guard lengthens a period, and concurrency alone has none. Remove guard.')
  return null
}

function spacingRule(fields: Fields, guardUs: number, what: string): SpacingRule {
  return { kind: 'spacing', everyUs: duration(fields, 'every', what, 1) + guardUs }
}

function rateRule(fields: Fields, guardUs: number, what: string): RateRule {
  const rate = whole(fields, 'rate', what, 1)
  const burst = fields['burst'] === undefined ? rate : whole(fields, 'burst', what, 1)
  const periodUs = duration(fields, 'per', what, 1) + guardUs
  const { startEmpty = false } = fields
  if (typeof startEmpty !== 'boolean')
    throw invalid(what, `startEmpty is invalid: ${show(startEmpty)}. Expected true or false.`)
  if (quotient(burst, periodUs, 0, rate) > MAX_DURATION_US)
    throw invalid(what, `burst is invalid: ${burst} takes over 100 years to refill. Lower it, or raise the rate.`)
  return { kind: 'rate', rate, periodUs, burst, startEmpty }
}

function windowRule(fields: Fields, guardUs: number, what: string): SlidingRule | FixedRule {
  const kind = oneOf<'sliding' | 'fixed'>(fields, 'window', ['sliding', 'fixed'], what)
  const max = whole(fields, 'max', what, 1)
  const { timezone } = fields
  if (timezone === undefined) {
    const perUs = duration(fields, 'per', what, 1)
    if (kind === 'sliding')
      return { kind, max, periodUs: perUs + (isDefaultGuard(fields) ? defaultGuardUs(perUs) : guardUs) }
    refuseLongGuard(guardUs, perUs, fields, what)
    return { kind, max, window: { align: 'epoch', periodUs: perUs }, guardUs }
  }
  const { per } = fields
  const unit = typeof per === 'string' ? calendarUnit(per) : null
  if (kind === 'sliding' || unit === null) {
    const remedy = "Remove it, or use window: 'fixed' with per '1h', '1d', '1w' or 'P1M'."
    throw invalid(what, `timezone (${show(timezone)}) is for calendar windows, and per is ${show(per)}. ${remedy}`)
  }
  if (typeof timezone !== 'string' || !isTimezone(timezone))
    throw invalid(what, `timezone is invalid: ${show(timezone)}. Expected an IANA name such as 'Europe/Paris'.`)
  refuseLongGuard(guardUs, NOMINAL_US[unit], fields, what)
  return { kind, max, window: { align: 'calendar', unit, timezone }, guardUs }
}

function headroomOf(fields: Fields, rule: Rule | null, concurrency: number | null, what: string): Headroom {
  const inside = `${what}, headroom`
  checkOptions(fields['headroom'], ['units', 'priority'], inside, { code: 'policy.invalid' })
  const given = fields['headroom'] as Fields
  const units = whole(given, 'units', inside, 1)
  const priority = whole(given, 'priority', inside, LOWEST_PRIORITY, HIGHEST_PRIORITY)
  const bounds = [rule === null || rule.kind === 'spacing' ? null : capacityOf(rule), concurrency].filter(isBound)
  if (bounds.length === 0)
    throw invalid(what, 'headroom keeps units back, and a spacing has none. Add concurrency, or remove headroom.')
  // A limit that is paused has no permits to keep back.
  const least = Math.min(...bounds.filter((bound) => bound > 0))
  if (units >= least)
    throw invalid(what, `headroom is invalid: ${units} units. Expected fewer than ${least}, the whole limit.`)
  return { units, priority }
}

function isBound(bound: number | null): bound is number {
  return bound !== null
}

function refuseLongGuard(guardUs: number, perUs: number, fields: Fields, what: string): void {
  // A clock change may shorten days and hours; half a period always remains.
  if (2 * guardUs > perUs)
    throw invalid(what, `guard is invalid: ${show(fields['guard'])}. Expected at most half of a window.`)
}

/** Reads a whole number in bounds. @throws {SluiceError} `policy.invalid` */
export function whole(fields: Fields, field: string, what: string, least: number, most: number = MAX_UNITS): number {
  const value = fields[field]
  if (typeof value === 'number' && Number.isInteger(value) && value >= least && value <= most) return value + 0
  throw invalid(what, `${field} is invalid: ${show(value)}. Expected a whole number from ${least} to ${most}.`)
}

function duration(fields: Fields, field: string, what: string, least: number): number {
  const value = fields[field]
  if (value === undefined) throw invalid(what, `${field} is missing. Expected a duration such as '1s' or '1m'.`)
  let us: number
  try {
    us = durationUs(value as Duration, `${field} of ${what}`)
  } catch (cause) {
    if (!(cause instanceof SluiceError)) throw cause
    throw new SluiceError('policy.invalid', cause.message, { cause })
  }
  if (us < least)
    throw invalid(what, `${field} is invalid: ${show(value)}. Expected a duration above zero, such as '1s'.`)
  return us
}

function oneOf<T extends string>(fields: Fields, field: string, values: readonly [T, ...T[]], what: string): T {
  const value = fields[field] === undefined ? values[0] : fields[field]
  const found = values.find((allowed) => allowed === value)
  if (found !== undefined) return found
  throw invalid(
    what,
    `${field} is invalid: ${show(value)}. Expected ${values.map((allowed) => `'${allowed}'`).join(' or ')}.`,
  )
}

/** The error of an invalid policy. */
export function invalid(what: string, message: string): SluiceError {
  return new SluiceError('policy.invalid', `${what}: ${message}`)
}
