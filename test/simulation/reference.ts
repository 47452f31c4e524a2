// What limits mean, said a second time and as plainly as possible: a bucket is the log of what it was charged, and every answer is
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

interface Entry {
  readonly atUs: number
  readonly units: number
}

const NEVER = Infinity

/** One bucket: the log of its charges, its penalties and the runs that hold its permits. */
export class ReferenceBucket {
  readonly policy: ReferencePolicy
  readonly log: Entry[] = []
  /** Runs that hold a permit. */
  readonly holders: Set<string> = new Set()
  readonly #events: (
    | { readonly kind: 'charge'; readonly atUs: number; readonly units: number }
    | { readonly kind: 'close'; readonly atUs: number; readonly untilUs: number }
  )[] = []
  /** False: the bucket may hold less than its log says. */
  exact = true
  #bornUs: number | null = null
  #closedUntilUs = 0

  constructor(policy: ReferencePolicy) {
    this.policy = policy
  }

  /** Somebody looks at it for the first time. */
  bear(atUs: number): void {
    this.#bornUs ??= atUs
  }

  charge(atUs: number, units: number): void {
    if (units === 0) return
    this.log.push({ atUs, units })
    this.#events.push({ kind: 'charge', atUs, units })
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

  // In exact fractions: one unit is `perUs` parts, and `rate` parts flow in every µs.
  #rateAt(
    rule: { rate: number; perUs: number; burst: number; startEmpty: boolean },
    fromUs: number,
    units: number,
  ): number {
    const rate = BigInt(rule.rate)
    const unit = BigInt(rule.perUs + this.policy.guardUs)
    const full = BigInt(rule.burst) * unit
    let emptyAt = BigInt(this.#bornUs ?? fromUs) * rate
    if (rule.startEmpty) emptyAt += full - unit
    let closedUs = 0
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
    const neededAt = emptyAt + BigInt(units) * unit - full
    const atUs = Number(neededAt >= 0n ? (neededAt + rate - 1n) / rate : 0n)
    return Math.max(fromUs, atUs)
  }
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
      if (rule.kind === 'rate' && (units - rule.burst) * (rule.perUs + guardUs) > (apartUs + 1) * rule.rate)
        return `${units} units in ${apartUs} µs from ${first.atUs}, burst ${rule.burst} and ${rule.rate} per ${rule.perUs} + ${guardUs} allowed`
      if (rule.kind !== 'rate' && apartUs > (rule.kind === 'spacing' ? rule.everyUs : rule.perUs) + guardUs) break
    }
  }
  return null
}
