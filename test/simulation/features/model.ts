// The meaning of limits, said once more from a log of starts alone; nothing here is shared with src/policy.
import type { LimitPlan, Rule } from './plan.ts'

/** The tolerance that the model grants the engine, µs: the engine carries fractions of a µs, the model rounds them. */
export const SLACK_US = 3

/** Since 1970 a number of µs has no room for thirds of them. */
const EPOCH_US = Date.UTC(2026, 0, 1) * 1000

interface Entry {
  readonly atUs: number
  readonly units: number
}

/** One bucket: what was started, until when it is closed, and who holds its permits. */
export class ModelBucket {
  readonly name: string
  readonly limit: LimitPlan
  /** The runs that hold a permit. */
  readonly holders: Set<number> = new Set()
  readonly #log: Entry[] = []
  /** When each rate is full again, by its place among the rules: µs since the epoch of this model. */
  readonly #fullAtUs: number[]
  #closedUntilUs = 0
  /** A penalty that leaves a rate one token when it is over; 0: there is none. */
  #penaltyUs = 0
  /** When the starts within the share are as many as before any of them. */
  #assuredFullUs = -Infinity
  /** Which starts were within the share cannot be told any more. */
  isUncertain = false
  /** Starts of one instant cost different units: in shadow mode their order decides what they and all later ones wait. */
  hasUnknownOrder = false
  #last: Entry = { atUs: -Infinity, units: 0 }

  constructor(limit: LimitPlan, key: string) {
    this.limit = limit
    this.name = `${limit.name}:${key}`
    this.#fullAtUs = limit.rules.map(() => -Infinity)
  }

  /**
   * The first µs from `nowUs` at which a start is admitted if nothing else happens; infinity: a permit has to return.
   * @param kept units, and permits, that must remain
   */
  admitAt(nowUs: number, units: number, kept: number): number {
    const { concurrency, shadow } = this.limit
    if (shadow) return Math.max(nowUs, this.#closedUntilUs)
    if (concurrency !== null && this.holders.size >= concurrency - kept) return Infinity
    const openUs = Math.max(nowUs, this.#closedUntilUs)
    return units === 0 ? openUs : this.#rulesAt(openUs, units, kept)
  }

  #rulesAt(fromUs: number, units: number, kept: number): number {
    let atUs = fromUs
    // Rules refuse one after the other: each pass may move the instant on.
    for (let moved = true; moved;) {
      moved = false
      for (const [i, rule] of this.limit.rules.entries()) {
        const nextUs = this.#ruleAt(rule, i, atUs, units, kept)
        if (nextUs > atUs) moved = true
        atUs = nextUs
      }
    }
    return atUs
  }

  /** Whether a start is within the share of the common limit. */
  isAssured(nowUs: number, units: number): boolean {
    const { share } = this.limit
    if (!share || (share.concurrency !== null && this.holders.size >= share.concurrency)) return false
    if (!share.rule || units === 0) return true
    const { everyUs, burst } = share.rule
    return nowUs >= this.#assuredFullUs - (burst - Math.min(units, burst)) * everyUs
  }

  start(nowUs: number, units: number): void {
    const rule = this.limit.share?.rule
    if (rule && units > 0 && this.isAssured(nowUs, units))
      this.#assuredFullUs = Math.max(this.#assuredFullUs, nowUs) + units * rule.everyUs
    this.#endPenalty(nowUs)
    if (!this.limit.shadow) this.#charge(nowUs, units)
  }

  /**
   * A start under a limit in shadow mode: by how much the limit would have delayed it, in µs; infinity: until a permit
   * had returned. Those that it would have delayed form a queue.
   */
  startInShadow(nowUs: number, units: number): number {
    if (this.#last.atUs === nowUs && this.#last.units !== units) this.hasUnknownOrder = true
    this.#last = { atUs: nowUs, units }
    const fromUs = Math.max(nowUs, this.#log.at(-1)?.atUs ?? -Infinity)
    const atUs = units === 0 ? nowUs : this.#rulesAt(fromUs, units, 0)
    const { concurrency, onLimit, maxWaitUs } = this.limit
    const isFull = concurrency !== null && this.holders.size >= concurrency
    const isRefused = isFull || atUs > nowUs
    if (!isRefused || (onLimit !== 'drop' && atUs - nowUs <= maxWaitUs)) this.#charge(atUs, units)
    return isFull ? Infinity : atUs - nowUs
  }

  #charge(nowUs: number, units: number): void {
    if (units === 0) return
    for (const [i, rule] of this.limit.rules.entries())
      if (rule.kind === 'rate')
        this.#fullAtUs[i] = laterOf(this.#fullAtUs[i] ?? 0, nowUs - EPOCH_US) + (units * rule.perUs) / rule.rate
    this.#log.push({ atUs: nowUs, units })
  }

  close(nowUs: number, untilUs: number): void {
    if (untilUs <= nowUs) return
    this.#endPenalty(nowUs)
    this.#closedUntilUs = Math.max(this.#closedUntilUs, untilUs)
    this.#penaltyUs = Math.max(this.#penaltyUs, untilUs)
  }

  /** Says what is wrong with all that was started, looking at every interval; null: nothing. */
  broken(): string | null {
    for (const rule of this.limit.rules)
      for (const [i, first] of this.#log.entries()) {
        let units = 0
        for (const [j, { atUs, units: more }] of this.#log.slice(i).entries()) {
          const apartUs = atUs - first.atUs
          units += more
          if (isOver(rule, first.atUs, apartUs, units, j)) return `${this.name}: ${units} units in ${apartUs} µs`
        }
      }
    return null
  }

  #ruleAt(rule: Rule, place: number, fromUs: number, units: number, kept: number): number {
    if (rule.kind === 'rate') return this.#rateAt(rule, place, fromUs, Math.min(units + kept, rule.burst))
    if (rule.kind === 'spacing') return Math.max(fromUs, (this.#log.at(-1)?.atUs ?? -Infinity) + rule.perUs)
    const needed = Math.min(units + kept, rule.max)
    if (rule.kind === 'sliding') {
      const instants = [fromUs, ...this.#log.map(({ atUs }) => atUs + rule.perUs).filter((atUs) => atUs > fromUs)]
      instants.sort((a, b) => a - b)
      return instants.find((atUs) => this.#used(atUs - rule.perUs + 1, atUs + 1) + needed <= rule.max) ?? Infinity
    }
    for (let atUs = fromUs; ;) {
      const [beginUs, endUs] = windowOf(rule, atUs)
      if (this.#used(beginUs, endUs) + needed <= rule.max && atUs <= endUs - rule.guardUs) return atUs
      atUs = endUs
    }
  }

  #rateAt(rule: Extract<Rule, { kind: 'rate' }>, place: number, fromUs: number, needed: number): number {
    const intervalUs = rule.perUs / rule.rate
    let fullAtUs = this.#fullAtUs[place] ?? -Infinity
    if (this.#penaltyUs > 0) fullAtUs = Math.max(fullAtUs, this.#penaltyUs - EPOCH_US + (rule.burst - 1) * intervalUs)
    return Math.max(fromUs, EPOCH_US + Math.ceil(fullAtUs - (rule.burst - needed) * intervalUs - 1e-3))
  }

  #endPenalty(nowUs: number): void {
    if (this.#penaltyUs === 0 || this.#penaltyUs > nowUs) return
    for (const [i, rule] of this.limit.rules.entries())
      if (rule.kind === 'rate')
        this.#fullAtUs[i] = Math.max(
          this.#fullAtUs[i] ?? 0,
          this.#penaltyUs - EPOCH_US + ((rule.burst - 1) * rule.perUs) / rule.rate,
        )
    this.#penaltyUs = 0
  }

  /** Units of the starts in `[fromUs, toUs)`. */
  #used(fromUs: number, toUs: number): number {
    return this.#log.reduce((sum, { atUs, units }) => (atUs >= fromUs && atUs < toUs ? sum + units : sum), 0)
  }
}

/** The later of two instants. A start at the first whole µs after the bucket is full again was not late. */
function laterOf(fullAtUs: number, nowUs: number): number {
  return nowUs - fullAtUs < 1 ? fullAtUs : nowUs
}

function isOver(rule: Rule, firstUs: number, apartUs: number, units: number, after: number): boolean {
  if (rule.kind === 'rate') return (units - rule.burst) * rule.perUs > (apartUs + 1) * rule.rate + 1e-3
  if (rule.kind === 'sliding') return apartUs < rule.perUs && units > rule.max
  if (rule.kind === 'spacing') return after === 1 && apartUs < rule.perUs
  return firstUs + apartUs < windowOf(rule, firstUs)[1] && units > rule.max
}

const HOUR_US = 3_600_000_000
const days = new Map<string, Intl.DateTimeFormat>()
const windows = new Map<string, [number, number][]>()

/** The half-open window that holds an instant. */
function windowOf(rule: Extract<Rule, { kind: 'fixed' | 'calendar' }>, atUs: number): [number, number] {
  if (rule.kind === 'fixed') {
    const beginUs = Math.floor(atUs / rule.perUs) * rule.perUs
    return [beginUs, beginUs + rule.perUs]
  }
  if (rule.unit === 'hour') {
    const offsetUs = rule.timezone === 'Asia/Kolkata' ? HOUR_US / 2 : 0
    const beginUs = Math.floor((atUs + offsetUs) / HOUR_US) * HOUR_US - offsetUs
    return [beginUs, beginUs + HOUR_US]
  }
  const known = windows.get(rule.timezone) ?? []
  windows.set(rule.timezone, known)
  const found = known.find(([beginUs, endUs]) => atUs >= beginUs && atUs < endUs)
  if (found) return found
  const window: [number, number] = [edge(rule.timezone, atUs, -1), edge(rule.timezone, atUs, 1)]
  known.push(window)
  return window
}

/** Where the day of an instant begins or ends, by asking for the date alone. */
function edge(timezone: string, atUs: number, direction: -1 | 1): number {
  const format =
    days.get(timezone) ??
    new Intl.DateTimeFormat('en-CA', { timeZone: timezone, year: 'numeric', month: '2-digit', day: '2-digit' })
  days.set(timezone, format)
  const dayOf = (us: number): string => format.format(new Date(Math.floor(us / 1000)))
  let inside = atUs
  let outside = atUs + direction * 26 * HOUR_US
  while (Math.abs(outside - inside) > 1000) {
    const middle = Math.floor((inside + outside) / 2)
    if (dayOf(middle) === dayOf(atUs)) inside = middle
    else outside = middle
  }
  return Math.round((direction < 0 ? inside : outside) / 1_000_000) * 1_000_000
}
