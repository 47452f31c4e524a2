// The meaning of limits, said a second time and as plainly as possible: a bucket is the log of its charges, and every answer is
// computed from that log alone. Nothing here is shared with src/policy.

/** A limit as the scenario made it; all times in µs, guard not yet added. */
export interface ReferencePolicy {
  readonly rule:
    | {
        readonly kind: 'rate'
        readonly rate: number
        readonly perUs: number
        readonly burst: number
        readonly startEmpty: boolean
      }
    | { readonly kind: 'sliding'; readonly max: number; readonly perUs: number }
    | { readonly kind: 'fixed'; readonly max: number; readonly perUs: number }
    | { readonly kind: 'spacing'; readonly everyUs: number }
    | null
  readonly concurrency: number | null
  readonly guardUs: number
  readonly freeRetries: boolean
}

type RateRule = Extract<ReferencePolicy['rule'], { kind: 'rate' }>

interface Entry {
  readonly atUs: number
  readonly units: number
}

const NEVER = Infinity

/** One bucket: the log of its charges, its penalties, what its policy was and became, and the runs that hold its permits. */
export class ReferenceBucket {
  policy: ReferencePolicy
  log: Entry[] = []
  /** Runs that hold a permit. */
  readonly holders: Set<string> = new Set()
  #events: (
    | { readonly kind: 'charge'; readonly atUs: number; readonly units: number }
    | { readonly kind: 'close'; readonly atUs: number; readonly untilUs: number }
  )[] = []
  /** False: the bucket may hold less than its log says. */
  exact = true
  /** Numbers the spans of time in which the policy was the same. */
  span = 0
  readonly policies: ReferencePolicy[]
  #bornUs: number | null = null
  #closedUntilUs = 0
  /** Of a rate that was changed: when it is empty, in 1/rate µs, and a penalty that had still to be counted. */
  #changed: { readonly emptyAt: bigint; readonly closedUs: number } | null = null

  constructor(policy: ReferencePolicy) {
    this.policy = policy
    this.policies = [policy]
  }

  /** The first look at it. */
  bear(atUs: number): void {
    this.#bornUs ??= atUs
  }

  /** Nothing is stored of it: the next look finds a new one. */
  forget(): void {
    this.#bornUs = null
    this.#closedUntilUs = 0
    this.#changed = null
    this.#events = []
    this.log = []
  }

  /** Its policy is another from now on: the level carries over, at most the new bound; nothing that has left a window comes back. */
  change(atUs: number, to: ReferencePolicy): void {
    const from = this.policy
    if (JSON.stringify(from) === JSON.stringify(to)) return
    this.policies[++this.span] = to
    // The engine counts the change from the last start that was granted.
    if (this.isAhead(atUs)) this.exact = false
    const same = JSON.stringify([from.rule, from.guardUs]) === JSON.stringify([to.rule, to.guardUs])
    if (!same && this.#bornUs !== null) this.#carry(atUs, from, to)
    this.policy = to
  }

  #carry(atUs: number, from: ReferencePolicy, to: ReferencePolicy): void {
    const was = from.rule
    const rule = to.rule
    const pendingUs = this.#closedUntilUs > atUs ? this.#closedUntilUs : 0
    let used = 0
    if (was?.kind === 'rate') {
      const unit = BigInt(was.perUs + from.guardUs)
      const emptyAt = this.#fold(was, atUs).emptyAt
      const missing = emptyAt > BigInt(atUs) * BigInt(was.rate) ? emptyAt - BigInt(atUs) * BigInt(was.rate) : 0n
      if (rule?.kind === 'rate') {
        const level = BigInt(was.burst) * unit - missing
        const most = BigInt(rule.burst) * unit
        const lacks = (most - (level < most ? level : most)) * BigInt(rule.perUs + to.guardUs)
        // Fractions of 1/rate µs are lost on the side of too few.
        this.#changed = { emptyAt: BigInt(atUs) * BigInt(rule.rate) + ceil(lacks, unit), closedUs: pendingUs }
        this.#events = []
        return
      }
      used = Math.min(Number(ceil(missing, unit)), was.burst)
    } else if (was?.kind === 'sliding') {
      this.log = this.log.filter((each) => each.atUs + was.perUs + from.guardUs > atUs)
      if (rule?.kind === 'sliding') return
      used = sum(this.log, 0, atUs)
    } else if (was?.kind === 'fixed') {
      used = sum(this.log, Math.floor(atUs / was.perUs) * was.perUs, atUs)
    } else if (was?.kind === 'spacing') {
      if (rule?.kind === 'spacing') return
      used = (this.log.at(-1)?.atUs ?? -Infinity) + was.everyUs + from.guardUs > atUs ? 1 : 0
    }
    // All that was used in a kind stays in it; another kind holds at most its own bound of that.
    const most = rule?.kind === 'rate' ? rule.burst : rule === null || rule.kind === 'spacing' ? 1 : rule.max
    const kept = was?.kind === rule?.kind ? used : Math.min(used, most)
    this.log = kept === 0 ? [] : [{ atUs, units: kept }]
    this.#events = []
    this.#changed = null
    if (rule?.kind !== 'rate') return
    const level = Math.max(kept, rule.startEmpty ? rule.burst - 1 : 0)
    const emptyAt = BigInt(atUs) * BigInt(rule.rate) + BigInt(level) * BigInt(rule.perUs + to.guardUs)
    this.#changed = { emptyAt, closedUs: pendingUs }
  }

  charge(atUs: number, units: number): void {
    if (units === 0) return
    // Starts of other instants were granted ahead: the engine may know less of the past than the log does.
    if (this.isAhead(atUs)) this.exact = false
    this.log.splice(this.log.findLastIndex((each) => each.atUs <= atUs) + 1, 0, { atUs, units })
    this.#events.splice(this.#events.findLastIndex((each) => each.atUs <= atUs) + 1, 0, { kind: 'charge', atUs, units })
  }

  /** Whether a start of a later instant is charged. */
  isAhead(nowUs: number): boolean {
    return (this.log.at(-1)?.atUs ?? -Infinity) > nowUs
  }

  isClosed(atUs: number): boolean {
    return this.#closedUntilUs > atUs
  }

  /** A start that did not happen: what it was charged comes back. The engine may give back less; see `exact`. */
  refund(atUs: number, units: number): void {
    for (const list of [this.log, this.#events] as { atUs: number; units?: number }[][]) {
      const at = list.findLastIndex((each) => each.atUs === atUs && each.units === units)
      if (at >= 0) list.splice(at, 1)
    }
    this.exact = false
  }

  close(atUs: number, untilUs: number): void {
    if (untilUs <= atUs) return
    if (this.isAhead(atUs)) this.exact = false
    this.#closedUntilUs = Math.max(this.#closedUntilUs, untilUs)
    this.#events.push({ kind: 'close', atUs, untilUs })
  }

  /** The first µs from `nowUs` at which a start of these units may happen if nothing else does; Infinity: a permit has to return. */
  admitAt(nowUs: number, units: number): number {
    const { concurrency, rule } = this.policy
    if (concurrency !== null && this.holders.size >= concurrency) return NEVER
    const fromUs = Math.max(nowUs, this.#closedUntilUs)
    if (rule === null || units === 0) return fromUs
    if (rule.kind === 'rate') return this.#rateAt(rule, fromUs, units)
    if (rule.kind === 'sliding') return this.#slidingAt(rule.max, rule.perUs + this.policy.guardUs, fromUs, units)
    if (rule.kind === 'fixed') return this.#fixedAt(rule.max, rule.perUs, fromUs, units)
    const last = this.log.at(-1)
    return last ? Math.max(fromUs, last.atUs + rule.everyUs + this.policy.guardUs) : fromUs
  }

  #slidingAt(max: number, lengthUs: number, fromUs: number, units: number): number {
    const instants = [fromUs, ...this.log.map((each) => each.atUs + lengthUs).filter((atUs) => atUs > fromUs)].sort(
      (a, b) => a - b,
    )
    return instants.find((atUs) => sum(this.log, atUs - lengthUs + 1, atUs) + units <= max) ?? NEVER
  }

  #fixedAt(max: number, lengthUs: number, fromUs: number, units: number): number {
    let atUs = fromUs
    for (;;) {
      const startUs = Math.floor(atUs / lengthUs) * lengthUs
      const tooNear = atUs > startUs + lengthUs - this.policy.guardUs
      if (!tooNear && sum(this.log, startUs, startUs + lengthUs - 1) + units <= max) return atUs
      atUs = startUs + lengthUs
    }
  }

  // More than the burst is granted by a full bucket.
  #rateAt(rule: RateRule, fromUs: number, units: number): number {
    const rate = BigInt(rule.rate)
    const { emptyAt, unit, full } = this.#fold(rule, fromUs)
    const neededAt = emptyAt + BigInt(Math.min(units, rule.burst)) * unit - full
    return Math.max(fromUs, Number(neededAt >= 0n ? ceil(neededAt, rate) : 0n))
  }

  // In exact fractions: one unit is `perUs` parts, and `rate` parts flow in every µs.
  #fold(rule: RateRule, fromUs: number): { emptyAt: bigint; unit: bigint; full: bigint } {
    const rate = BigInt(rule.rate)
    const unit = BigInt(rule.perUs + this.policy.guardUs)
    const full = BigInt(rule.burst) * unit
    let emptyAt = BigInt(this.#bornUs ?? fromUs) * rate
    if (rule.startEmpty) emptyAt += full - unit
    if (this.#changed) emptyAt = this.#changed.emptyAt
    let closedUs = this.#changed?.closedUs ?? 0
    const penalise = (nowUs: number): void => {
      if (closedUs === 0 || closedUs > nowUs) return
      const oneToken = BigInt(closedUs) * rate + full - unit
      if (oneToken > emptyAt) emptyAt = oneToken
      closedUs = 0
    }
    for (const event of this.#events) {
      penalise(event.atUs)
      if (event.kind === 'close') {
        closedUs = Math.max(closedUs, event.untilUs)
        continue
      }
      const now = BigInt(event.atUs) * rate
      // A start at the first whole µs after the bucket was full counts from the exact instant at which it was.
      emptyAt = (emptyAt > now - rate ? emptyAt : now) + BigInt(event.units) * unit
    }
    penalise(fromUs)
    return { emptyAt, unit, full }
  }
}

function ceil(value: bigint, by: bigint): bigint {
  return value > 0n ? (value + by - 1n) / by : value / by
}

function sum(log: readonly Entry[], fromUs: number, toUs: number): number {
  let units = 0
  for (let i = log.length - 1; i >= 0; i--) {
    const entry = log[i]!
    if (entry.atUs < fromUs) break
    if (entry.atUs <= toUs) units += entry.units
  }
  return units
}

/** Says what is wrong with a log of starts under a policy's rule, looking at every interval; null: nothing. */
export function brokenBudget(policy: ReferencePolicy, starts: readonly Entry[]): string | null {
  const { rule, guardUs } = policy
  if (rule === null) return null
  for (let i = 0; i < starts.length; i++) {
    const first = starts[i]!
    let units = 0
    for (let j = i; j < starts.length; j++) {
      const last = starts[j]!
      const apartUs = last.atUs - first.atUs
      units += last.units
      if (rule.kind === 'sliding' && apartUs < rule.perUs + guardUs && units > rule.max)
        return `${units} units in ${apartUs} µs from ${first.atUs}, ${rule.max} per ${rule.perUs} + ${guardUs} allowed`
      if (
        rule.kind === 'fixed' &&
        Math.floor(first.atUs / rule.perUs) === Math.floor(last.atUs / rule.perUs) &&
        units > rule.max
      )
        return `${units} units in the window of ${first.atUs}, ${rule.max} allowed`
      if (rule.kind === 'spacing' && j === i + 1 && apartUs < rule.everyUs + guardUs)
        return `two starts ${apartUs} µs apart at ${first.atUs}, ${rule.everyUs} + ${guardUs} demanded`
      // The last one may have begun on a full bucket that holds less than it costs.
      const owed = rule.kind === 'rate' ? units - Math.max(0, last.units - rule.burst) : units
      if (rule.kind === 'rate' && (owed - rule.burst) * (rule.perUs + guardUs) > (apartUs + 1) * rule.rate)
        return `${units} units in ${apartUs} µs from ${first.atUs}, burst ${rule.burst} and ${rule.rate} per ${rule.perUs} + ${guardUs} allowed`
      if (rule.kind !== 'rate' && apartUs > (rule.kind === 'spacing' ? rule.everyUs : rule.perUs) + guardUs) break
    }
  }
  return null
}

/** The change of an override, as the scenario made it: numbers of the rule, and permits. */
export interface ReferenceChange {
  readonly rate?: number
  readonly burst?: number
  readonly max?: number
  readonly perUs?: number
  readonly everyUs?: number
  readonly concurrency?: number | null
}

interface Standing {
  readonly change: ReferenceChange | null
  readonly untilUs: number
}

/**
 * All that is in force for one limit: its definition, and at most one override and one pause for all keys and for each
 * key.
 */
export class ReferenceLimit {
  definition: ReferencePolicy
  readonly #standing = new Map<string, Standing>()

  constructor(definition: ReferencePolicy) {
    this.definition = definition
  }

  /** @param change null: a pause. */
  begin(key: string | null, change: ReferenceChange | null, untilUs: number): void {
    this.#standing.set(slot(key, change === null), { change, untilUs })
  }

  end(key: string | null, isPause: boolean): void {
    this.#standing.delete(slot(key, isPause))
  }

  /** When the next of them ends by itself. */
  get nextEndUs(): number {
    return Math.min(Infinity, ...[...this.#standing.values()].map((each) => each.untilUs))
  }

  /** Takes away what ends at or before an instant. */
  expire(nowUs: number): void {
    for (const [name, each] of this.#standing) if (each.untilUs <= nowUs) this.#standing.delete(name)
  }

  /** The key's own word wins over that of all keys, a pause over everything. */
  inForce(key: string): ReferencePolicy {
    let policy = this.definition
    for (const whose of [null, key]) {
      const change = this.#standing.get(slot(whose, false))?.change
      if (change) policy = merged(policy, change)
    }
    const paused = [null, key].some((whose) => this.#standing.has(slot(whose, true)))
    return paused ? { ...policy, concurrency: 0 } : policy
  }
}

function slot(key: string | null, isPause: boolean): string {
  return JSON.stringify([key, isPause])
}

function merged(policy: ReferencePolicy, change: ReferenceChange): ReferencePolicy {
  const concurrency = change.concurrency === undefined ? policy.concurrency : change.concurrency
  const { rule } = policy
  if (rule === null) return { ...policy, concurrency }
  if (rule.kind === 'spacing')
    return { ...policy, concurrency, rule: { ...rule, everyUs: change.everyUs ?? rule.everyUs } }
  const perUs = change.perUs ?? rule.perUs
  if (rule.kind !== 'rate') return { ...policy, concurrency, rule: { ...rule, perUs, max: change.max ?? rule.max } }
  const rate = change.rate ?? rule.rate
  // A burst that is the rate goes with it.
  const burst = change.burst ?? (rule.burst === rule.rate ? rate : rule.burst)
  return { ...policy, concurrency, rule: { ...rule, rate, perUs, burst } }
}
