/** Policies as text, such as `'100/m'` or `'15/min burst 5, 4 at once'`. docs/reference/policies.md has the grammar. */
import type { Duration } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { didYouMean } from '../../base/nearest.ts'

/** The fields of a policy that a text can set. */
export interface TextFields {
  rate?: number
  per?: Duration
  burst?: number
  window?: 'sliding' | 'fixed'
  max?: number
  timezone?: string
  every?: Duration
  concurrency?: number
  guard?: Duration
}

/** A length of time as it is written. */
interface Length {
  /** Empty: one. */
  readonly number: string
  readonly unit: Unit
  readonly at: number
}

/** A count over time, before the words behind it may make it a window. */
interface Pace {
  readonly count: number
  readonly length: Length
  window: 'sliding' | 'fixed' | null
  zone: string | null
}

type Unit = 'us' | 'ms' | 's' | 'm' | 'h' | 'd' | 'week' | 'month' | 'iso'

const MAX_TEXT_LENGTH = 200
const NAMES: Readonly<Record<Exclude<Unit, 'iso'>, readonly string[]>> = {
  us: ['µs'],
  ms: ['ms'],
  s: ['s', 'sec', 'second', 'seconds'],
  m: ['m', 'min', 'minute', 'minutes'],
  h: ['h', 'hour', 'hours'],
  d: ['d', 'day', 'days'],
  week: ['week', 'weeks'],
  month: ['month', 'months'],
}
const UNITS: ReadonlyMap<string, Unit> = new Map(
  Object.entries(NAMES).flatMap(([unit, names]) => names.map((name) => [name, unit as Unit] as const)),
)
/** The longer names first: `mn` is nearer to min than to ms. */
const UNIT_NAMES = [...UNITS.keys()].toSorted((a, b) => b.length - a.length)
const SHOWN_UNITS = 'ms, s, min, h, d or week'
const CALENDAR: Readonly<Partial<Record<Unit, Duration>>> = { h: '1h', d: '1d', week: 'P1W', month: 'P1M' }

const SPACE = /\s+/y
// A comma either groups three digits or ends a part.
const COUNT = /(?:\d{1,3}(?:,\d{3})+|\d+)(?![\d.])/y
const NUMBER = /\d+(?:\.\d+)?(?![\d.])/y
const WORD = /[\p{L}_]+/uy
const ISO = /P[\dTWDHMSY.]+/y
const ZONE = /[A-Za-z][\w+-]*(?:\/[\w+-]+)*/y
/** All that a message shows as one wrong part. */
const WRONG = /[\p{L}\p{N}_.]+|\S/uy

const PARTS = ['every', 'one', 'burst', 'sliding', 'fixed', 'guard', 'no', 'paused'] as const
const SHOWN_PARTS = "a rate such as '100/m', '5 at once', every, burst, sliding, fixed, guard or paused"

/**
 * Reads a policy that is written as text. It checks the form; `normalisePolicy` checks the values.
 *
 * @param what names the limit in messages.
 * @throws {SluiceError} `policy.invalid`, with the place of the first part that does not fit
 */
export function readPolicyText(text: string, what: string): TextFields {
  return new PolicyReader(text, what).read()
}

class PolicyReader {
  readonly #text: string
  readonly #what: string
  #at = 0
  #pace: Pace | null = null
  readonly #fields: TextFields = {}

  constructor(text: string, what: string) {
    this.#text = text
    this.#what = what
  }

  read(): TextFields {
    if (this.#text.length > MAX_TEXT_LENGTH)
      throw this.#fault(MAX_TEXT_LENGTH, `the text is too long. Expected at most ${MAX_TEXT_LENGTH} characters.`)
    do this.#part()
    while (this.#take(/,/y) !== null || this.#here() < this.#text.length)
    return { ...this.#fields, ...(this.#pace && this.#fieldsOf(this.#pace)) }
  }

  #part(): void {
    const at = this.#here()
    const count = this.#take(COUNT)
    if (count !== null) return this.#afterCount(Number(count.replaceAll(',', '')), at)
    const word = this.#word(PARTS, SHOWN_PARTS)
    if (word === 'sliding' || word === 'fixed') return this.#window(word, at)
    if (word === 'burst') return this.#set('burst', this.#count(), at)
    if (word === 'guard') return this.#set('guard', this.#duration(), at)
    if (word === 'paused') return this.#set('concurrency', 0, at)
    if (word === 'no') {
      this.#word(['guard'])
      return this.#set('guard', 0, at)
    }
    if (word === 'one') this.#word(['every'])
    this.#set('every', this.#duration(), at)
  }

  #afterCount(count: number, at: number): void {
    const link =
      this.#take(/\//y) === null ? this.#word(['per', 'in', 'at'], "'/', per, in any, in each or at once") : 'per'
    if (link === 'at') {
      this.#word(['once'])
      return this.#set('concurrency', count, at)
    }
    if (this.#pace) throw this.#fault(at, 'the text has a second rate. Define one limit for each, and list both.')
    const kind = link === 'in' ? this.#word(['any', 'each']) : null
    const pace: Pace = { count, length: this.#length(), window: null, zone: null }
    if (kind !== null) pace.window = kind === 'any' ? 'sliding' : 'fixed'
    if (kind === 'each' && this.#take(/of\b/y) !== null) pace.zone = this.#zone()
    this.#pace = pace
  }

  /** Makes a window of the rate that stands before. */
  #window(window: 'sliding' | 'fixed', at: number): void {
    if (!this.#pace) throw this.#fault(at, `${window} has no rate before it. Expected one such as '100/m ${window}'.`)
    if (this.#pace.window !== null) throw this.#fault(at, `the rate is ${this.#pace.window} already. Remove ${window}.`)
    this.#pace.window = window
    if (window === 'fixed' && this.#take(/in\b/y) !== null) this.#pace.zone = this.#zone()
  }

  #fieldsOf({ count, length, window, zone }: Pace): TextFields {
    const per = zone === null ? this.#durationOf(length) : this.#calendarPeriod(length)
    if (window === null) return { rate: count, per }
    return { window, max: count, per, ...(zone !== null && { timezone: zone }) }
  }

  #calendarPeriod({ number, unit, at }: Length): Duration {
    const found = number === '' || number === '1' ? CALENDAR[unit] : undefined
    if (found !== undefined) return found
    throw this.#fault(at, 'the calendar has no such period. Expected hour, day, week or month.')
  }

  #duration(): Duration {
    return this.#durationOf(this.#length())
  }

  #durationOf({ number, unit, at }: Length): Duration {
    if (unit === 'iso') return number as Duration
    if (unit === 'month')
      throw this.#fault(at, "months have no fixed length. Expected days, or '1,000 in each month of UTC'.")
    const amount = number === '' ? '1' : number
    if (unit === 'us') return Number(amount) / 1000
    return unit === 'week' ? `P${amount}W` : (`${amount}${unit}` as Duration)
  }

  #length(): Length {
    const at = this.#here()
    const iso = this.#take(ISO)
    if (iso !== null) return { number: iso, unit: 'iso', at }
    const number = this.#take(NUMBER) ?? ''
    return { number, unit: UNITS.get(this.#word(UNIT_NAMES, SHOWN_UNITS, 'unit')) as Unit, at }
  }

  #count(): number {
    const at = this.#here()
    const count = this.#take(COUNT)
    if (count !== null) return Number(count.replaceAll(',', ''))
    throw this.#fault(at, `${this.#wrong()} is not a whole number. Expected one.`)
  }

  #zone(): string {
    const at = this.#here()
    const zone = this.#take(ZONE)
    if (zone !== null) return zone
    throw this.#fault(at, `${this.#wrong()} is not a time zone. Expected an IANA name such as 'Europe/Paris'.`)
  }

  #word<W extends string>(words: readonly W[], shown: string = words.join(' or '), kind: 'word' | 'unit' = 'word'): W {
    const at = this.#here()
    const found = this.#take(WORD)
    const known = words.find((word) => word === found)
    if (known !== undefined) return known
    this.#at = at
    const hint = found === null ? '. ' : didYouMean(found, words)
    const wrong =
      kind === 'unit' && found !== null ? `${this.#wrong()} is not a unit of time` : `${this.#wrong()} does not fit`
    throw this.#fault(at, `${wrong}${hint}Expected ${shown}.`)
  }

  #set<K extends keyof TextFields>(name: K, value: NonNullable<TextFields[K]>, at: number): void {
    if (this.#fields[name] !== undefined) throw this.#fault(at, `the text sets ${name} again. Set it once.`)
    this.#fields[name] = value
  }

  /** Takes the text at this place, behind spaces; null, and takes nothing, if it does not match. */
  #take(pattern: RegExp): string | null {
    pattern.lastIndex = this.#here()
    const found = pattern.exec(this.#text)?.[0] ?? null
    if (found !== null) this.#at = pattern.lastIndex
    return found
  }

  /** The place behind spaces. */
  #here(): number {
    SPACE.lastIndex = this.#at
    if (SPACE.test(this.#text)) this.#at = SPACE.lastIndex
    return this.#at
  }

  /** The next part, for a message. */
  #wrong(): string {
    WRONG.lastIndex = this.#here()
    const found = WRONG.exec(this.#text)?.[0]
    return found === undefined ? 'the end of the text' : `'${found.slice(0, 40)}'`
  }

  #fault(at: number, problem: string): SluiceError {
    const shown = `'${this.#text.slice(0, MAX_TEXT_LENGTH)}'`
    return new SluiceError(
      'policy.invalid',
      `${this.#what}: the policy ${shown} is invalid at character ${at + 1}: ${problem}`,
    )
  }
}
