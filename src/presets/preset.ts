/** Presets: the limits of real APIs, as data with the pages that confirm them. */
import { type Duration, durationUs } from '../base/duration.ts'
import { SluiceError } from '../base/errors.ts'
import { didYouMean } from '../base/nearest.ts'
import { checkOptions, show } from '../base/options.ts'
import type { Answer } from '../jobs/header-source.ts'
import { isRefusal } from '../jobs/rate-limit-headers.ts'
import { type LimitName, RateLimited } from '../jobs/rate-limited.ts'
import { limit, type Limit } from '../policy/limits/define.ts'
import type { OnLimit } from '../policy/limits/limit.ts'
import type { Policy } from '../policy/limits/policy.ts'

/** A page that confirms numbers of a preset. */
export interface PresetSource {
  readonly url: string
  /** The day on which a stored copy of the page was read, as `YYYY-MM-DD`. The copy may be older. */
  readonly read: string
  /** The day that the page itself shows; absent: it shows none. */
  readonly dated?: string
}

/** One limit of an API. */
export interface PresetLimit {
  /** The policy. In a preset that takes your counts, `{count}` stands for the number. */
  readonly policy: Policy
  /** The owner of one budget, as a hint for `.by()`; null: all calls share one. */
  readonly key: string | null
  /** The counted units, which are the weight of a job; absent: calls. */
  readonly unit?: string
}

/** How an API tells that it refused a call. */
export interface PresetRefusal {
  /** The HTTP status, most common first. */
  readonly status: readonly number[]
  /** The headers that tell the wait, best first; empty: the API tells none. */
  readonly wait: readonly string[]
  /** A text that the body of a refusal has. */
  readonly mark?: string
  /** The wait to assume if the answer tells none; absent: one period of the limit. */
  readonly otherwise?: Duration
}

/** The facts of an API beside its limits. */
export interface PresetAbout {
  /** The beginning of the names of its limits. */
  readonly name: string
  readonly title: string
  readonly sources: readonly PresetSource[]
  /** The headers of answers that report a budget; a policy with `calibrate` follows them. */
  readonly headers: readonly string[]
  readonly refusal: PresetRefusal
  /** Each plan is a kind of call with budgets of its own, so that the names of its limits contain it. */
  readonly byOperation?: true
  readonly note?: string
}

/** Changes to the limits of a preset. */
export interface PresetOptions {
  /** The beginning of the names of the limits, in place of the preset's; each name is one budget. */
  readonly name?: string
  /** Replaces the guard of every rate and window. Default: 5 % of a window, at most 250 ms. */
  readonly guard?: Duration
  readonly onLimit?: OnLimit
  readonly maxWait?: Duration
}

interface Facts {
  readonly about: PresetAbout
  /**
   * The refusal in an answer of this API, to be thrown by a handler; null: the call was not refused for lack of budget.
   *
   * @param options.body the parsed body, for an API that marks refusals there.
   * @param options.limit the limit whose bucket closes; default: the first that the task lists.
   */
  refused(
    this: void,
    answer: Answer,
    options?: { readonly body?: unknown; readonly limit?: LimitName },
  ): RateLimited | null
}

/** The limits of an API by plan. Call it with a plan; it answers limits by their short names. */
export interface Preset<Plan extends string = string, Name extends string = string> extends Facts {
  /** @throws {SluiceError} `option.invalid` for an unknown plan or option */
  (plan: Plan, options?: PresetOptions): Readonly<Record<Name, Limit>>
  readonly plans: Readonly<Record<Plan, Readonly<Record<Name, PresetLimit>>>>
}

/** The limits of an API that shows each customer numbers of their own. Call it with those. */
export interface CountedPreset<Name extends string = string> extends Facts {
  /** @throws {SluiceError} `option.invalid` for a missing, unknown or invalid count */
  (counts: Readonly<Record<Name, number>>, options?: PresetOptions): Readonly<Record<Name, Limit>>
  /** The limits, with `{count}` for each number. */
  readonly counted: Readonly<Record<Name, PresetLimit>>
}

const OPTIONS = ['name', 'guard', 'onLimit', 'maxWait'] as const

/** Makes a preset of plans. */
export function preset<Plan extends string, Name extends string>(
  about: PresetAbout,
  plans: Readonly<Record<Plan, Readonly<Record<Name, PresetLimit>>>>,
): Preset<Plan, Name> {
  const limitsOf = (plan: Plan, options: PresetOptions = {}): Readonly<Record<Name, Limit>> => {
    const names = Object.keys(plans)
    if (typeof plan !== 'string' || !Object.hasOwn(plans, plan)) {
      const hint = typeof plan === 'string' ? didYouMean(plan, names) : '. '
      throw invalid(`The plan of preset ${about.name} is invalid: ${show(plan)}`, hint, names)
    }
    return limitsNamed(about.byOperation ? `${about.name}.${plan}` : about.name, about, plans[plan], options)
  }
  return Object.freeze(Object.assign(limitsOf, { about, plans, refused: refusedBy(about) }))
}

/** Makes a preset that takes counts. */
export function countedPreset<Name extends string>(
  about: PresetAbout,
  counted: Readonly<Record<Name, PresetLimit>>,
): CountedPreset<Name> {
  const limitsOf = (
    counts: Readonly<Record<Name, number>>,
    options: PresetOptions = {},
  ): Readonly<Record<Name, Limit>> => {
    const names = Object.keys(counted) as Name[]
    checkOptions(counts, names, `the counts of preset ${about.name}`)
    const limits = names.map((name): [Name, PresetLimit] => [name, withCount(counted[name], counts[name], about, name)])
    return limitsNamed(about.name, about, Object.fromEntries(limits) as Record<Name, PresetLimit>, options)
  }
  return Object.freeze(Object.assign(limitsOf, { about, counted, refused: refusedBy(about) }))
}

function withCount(of: PresetLimit, count: unknown, { name: preset }: PresetAbout, name: string): PresetLimit {
  if (!(typeof count === 'number' && Number.isInteger(count) && count >= 1))
    throw invalid(`The count ${name} of preset ${preset} is invalid: ${show(count)}`, '. ', [
      'a whole number from 1 on',
    ])
  const { policy } = of.policy
  return { ...of, policy: { ...of.policy, policy: String(policy).replace('{count}', String(count)) } as Policy }
}

function limitsNamed<Name extends string>(
  prefix: string,
  { name: preset }: PresetAbout,
  limits: Readonly<Record<Name, PresetLimit>>,
  options: PresetOptions,
): Readonly<Record<Name, Limit>> {
  checkOptions(options, OPTIONS, `preset ${preset}`)
  const { name = prefix, guard, onLimit, maxWait } = options
  const changes = { ...(onLimit !== undefined && { onLimit }), ...(maxWait !== undefined && { maxWait }) }
  const made = (Object.entries(limits) as [Name, PresetLimit][]).map(([each, { policy }]) => {
    const guarded = guard !== undefined && policy.policy !== undefined ? { guard } : {}
    return [each, limit(`${name}.${each}`, { ...policy, ...guarded, ...changes })]
  })
  return Object.freeze(Object.fromEntries(made) as Record<Name, Limit>)
}

function refusedBy({ name, refusal }: PresetAbout): Facts['refused'] {
  const { status, mark, otherwise } = refusal
  return (answer, options = {}) => {
    checkOptions(options, ['body', 'limit'], `${name}.refused`)
    const { body, limit: of } = options
    // 200 and 403 have other meanings too, so that the mark or the headers decide.
    const isOver = answer.status >= 429 && status.includes(answer.status)
    if (!isOver && !isRefusal(answer) && !(mark !== undefined && contains(body, mark))) return null
    const limit = of === undefined ? {} : { limit: of }
    const told = RateLimited.from(answer, limit)
    if (told.retryAfter.kind !== 'absent' || otherwise === undefined) return told
    return new RateLimited({ retryAfter: otherwise, ...limit }, told.headers)
  }
}

function contains(body: unknown, mark: string): boolean {
  return (typeof body === 'string' ? body : (JSON.stringify(body) ?? '')).includes(mark)
}

function invalid(problem: string, hint: string, expected: readonly string[]): SluiceError {
  return new SluiceError('option.invalid', `${problem}${hint}Expected ${expected.join(', ')}.`)
}

/** The guard of a preset's window: 5 % of it, at most 250 ms, for the way to an API on the internet. */
const GUARD = { divisor: 20, mostMs: 250 }

/**
 * A limit over any window of that length, which holds wherever the API's own windows begin.
 * @param more more of the policy, such as `calibrate`
 */
export function within(count: number | '{count}', length: Duration, more: Partial<Policy> = {}): Policy {
  const guardMs = Math.min(GUARD.mostMs, durationUs(length, 'a window') / 1000 / GUARD.divisor)
  return { policy: `${count} in any ${length}`, guard: guardMs, ...more } as Policy
}

/** A token bucket, for an API that documents one. */
export function bucket(text: string, more: Partial<Policy> = {}): Policy {
  return { policy: text, ...more } as Policy
}
