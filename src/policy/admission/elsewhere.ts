/**
 * Starts that need units of budgets that a backend keeps. Their process pays there before a decision grants them: a
 * decision says which starts it wants paid, and a later one grants what was paid.
 */
import { withoutRules } from '../limits/backend.ts'
import type { LimitPolicy } from '../limits/limit.ts'
import { type Bucket, type Head, type Lane, weightOf } from './lane.ts'
import { type Charge, pay, type QueueSlots } from './queue-slots.ts'

/** Units of one bucket that one start takes. */
export interface ElsewhereUse {
  readonly limit: string
  readonly key: string
  readonly weight: number
}

/** One start, as one backend is asked for it. */
export interface WantedStart {
  readonly backend: string
  /** All its uses at that backend, in the order of its lane. */
  readonly uses: readonly ElsewhereUse[]
  /** The job's own priority. */
  readonly priority: number
}

/** Starts with the same uses that a backend has granted. */
export interface PaidStarts extends Pick<WantedStart, 'backend' | 'uses'> {
  /** A decision that is written takes its own off. */
  starts: number
  /** Later they may not begin. */
  readonly untilUs: number
}

/** A bucket of which a backend refused units. */
export interface RefusedUnits {
  readonly limit: string
  readonly key: string
  /** Fewer may be there: as many are not before `untilUs`. */
  readonly weight: number
  readonly untilUs: number
  /** A decision that has seen the bucket is written. */
  told: boolean
}

/** The knowledge of a claimer's process about the backends. */
export interface ElsewhereTerms {
  /** The backends that it may ask now. A start that needs another one waits. */
  readonly backends: ReadonlySet<string>
  readonly paid: readonly PaidStarts[]
  readonly refused: readonly RefusedUnits[]
  /** Limits whose backend cannot be reached, and when to try again. */
  readonly down: ReadonlyMap<string, number>
  /** The most units of a bucket that one decision may want, by `idOfBucket`. Absent: any number. */
  readonly atMost: ReadonlyMap<string, number>
}

/** The terms of a claimer without backends. */
const NO_BACKENDS: ElsewhereTerms = { backends: new Set(), paid: [], refused: [], down: new Map(), atMost: new Map() }

/**
 * The limits, each with its backend, of which a claimer can neither start a job nor close a bucket. It leaves their due
 * wait lists as they are: they come due again for a process with the backend.
 */
export function unserved(
  terms: ElsewhereTerms | undefined,
  limits: readonly (readonly [limit: string, backend: string])[],
): string[] {
  const { backends, paid, refused, down } = terms ?? NO_BACKENDS
  const isKnown = (limit: string): boolean =>
    down.has(limit) ||
    refused.some((each) => each.limit === limit && !each.told) ||
    paid.some(({ starts, uses }) => starts > 0 && uses.some((use) => use.limit === limit))
  return limits.flatMap(([limit, backend]) => (backends.has(backend) || isKnown(limit) ? [] : [limit]))
}

/** Names a bucket: neither names of limits nor keys hold a NUL. */
export function idOfBucket({ limit, key }: { readonly limit: string; readonly key: string }): string {
  return `${limit}\0${key}`
}

/** Names a start by what it needs of a backend. */
export function idOfStart({ backend, uses }: Pick<WantedStart, 'backend' | 'uses'>): string {
  return `${backend}${uses.map((use) => `\0\0${idOfBucket(use)}\0${use.weight}`).join('')}`
}

/** The policy by which a store decides: a backend decides about the rules of its own limits. */
export function rulesHere(policy: LimitPolicy | null): LimitPolicy | null {
  return policy?.backend === undefined ? policy : withoutRules(policy)
}

interface Undo {
  readonly next: number
  readonly turn: number
  readonly taken: number
  /** Whether the lane has to be written even so. */
  readonly changed: boolean
}

/**
 * The starts of one decision that need backends. Those that are not paid yet start tentatively: they hold their slots
 * and their units in the store until the decision ends, so that no job behind them takes these. Then all is undone.
 */
export class Elsewhere {
  readonly wanted: WantedStart[] = []
  readonly #terms: ElsewhereTerms
  readonly #nowUs: number
  readonly #paid = new Map<string, number>()
  readonly #refused = new Map<string, RefusedUnits>()
  /** The buckets that have met their refusal. */
  readonly #met = new Map<Bucket, RefusedUnits>()
  /** Units wanted, by bucket. */
  readonly #wanted = new Map<Bucket, number>()
  /** Buckets whose first lane waits for the claimer's backend, not for an instant. */
  readonly #resting = new Set<Bucket>()
  /** Lanes with tentative starts. */
  readonly #lanes = new Map<Lane, Undo>()
  /** Buckets with tentative charges, as they are without them. */
  readonly #real = new Map<Bucket, Bucket>()

  constructor(terms: ElsewhereTerms | undefined, nowUs: number) {
    this.#terms = terms ?? NO_BACKENDS
    this.#nowUs = nowUs
    for (const each of this.#terms.paid)
      if (each.untilUs >= nowUs) {
        const id = idOfStart(each)
        this.#paid.set(id, (this.#paid.get(id) ?? 0) + each.starts)
      }
    for (const each of this.#terms.refused) this.#refused.set(idOfBucket(each), each)
  }

  /** Notes in a bucket that its backend refused units. Every bucket of a lane passes here before it is decided about. */
  met(bucket: Bucket): void {
    if (bucket.policy?.backend === undefined) return
    const downUntilUs = this.#terms.down.get(bucket.limit)
    if (downUntilUs !== undefined) return this.#close(bucket, 0, downUntilUs)
    if (this.#refused.size === 0) return
    const refused = this.#refused.get(idOfBucket(bucket))
    if (!refused || refused.told || this.#met.has(bucket)) return
    this.#met.set(bucket, refused)
    this.#close(bucket, Math.max(0, refused.weight - 1), refused.untilUs)
  }

  /** Only so many units may start until an instant. A past instant opens the bucket. */
  #close(bucket: Bucket, units: number, untilUs: number): void {
    const known = bucket.state.allowance
    if (known ? known.units === units && known.untilUs === untilUs : untilUs <= this.#nowUs) return
    if (untilUs <= this.#nowUs) delete bucket.state.allowance
    else bucket.state.allowance = { units, untilUs, sinceUs: this.#nowUs }
    bucket.changed = true
  }

  /** A bucket as a head sees it: what is paid for needs no units any more. A penalty and a pause stop it all the same. */
  seen(lane: Lane, head: Head, bucket: Bucket): Bucket {
    if (this.#paid.size === 0 || bucket.policy?.backend === undefined || !bucket.state.allowance) return bucket
    if (!wantedOf(lane, head).every((each) => this.#isPaid(each))) return bucket
    const { allowance: _refused, ...state } = bucket.state
    return { ...bucket, state }
  }

  /** Whether a start needs no place in the wait list of a bucket: it is paid for. */
  passes(lane: Lane, head: Head, bucket: Bucket): boolean {
    if (this.#paid.size === 0 || bucket.policy?.backend === undefined) return false
    return wantedOf(lane, head).every((each) => this.#isPaid(each))
  }

  /**
   * Begins a start that all buckets in the store admit. `paid`: it may start. `wanted`: it may start tentatively. A
   * bucket: its backend is not to be asked now.
   */
  begin(
    lane: Lane,
    head: Head,
    share: Pick<QueueSlots, 'slots'>,
    charges: readonly Charge[],
  ): 'paid' | 'wanted' | Bucket {
    // Most limits have no backend, and every start passes here.
    if (lane.buckets.every(({ policy }) => policy?.backend === undefined)) return 'paid'
    const wanted = wantedOf(lane, head)
    const lacking = this.#lanes.has(lane) ? wanted : wanted.filter((each) => !this.#isPaid(each))
    if (lacking.length > 0) {
      const closed = this.#closed(lane, head)
      if (closed) this.#resting.add(closed)
      if (closed) return closed
      this.wanted.push(...lacking)
      share.slots--
      this.#hold(lane, charges)
      return 'wanted'
    }
    for (const id of wanted.map(idOfStart)) this.#paid.set(id, (this.#paid.get(id) ?? 1) - 1)
    return 'paid'
  }

  /** Charges a start tentatively. */
  #hold(lane: Lane, charged: readonly Charge[]): void {
    if (!this.#lanes.has(lane)) this.#lanes.set(lane, placeOf(lane))
    // A start that is not paid yet must reject no job.
    const taken = charged.filter(({ bucket: { policy } }) => policy?.onLimit === 'wait' && policy.maxWaitUs === null)
    for (const { bucket } of taken)
      if (!this.#real.has(bucket)) this.#real.set(bucket, { ...bucket, state: structuredClone(bucket.state) })
    pay(taken, this.#nowUs, this.#nowUs)
  }

  /** A start was charged beside the tentative ones. */
  charged(charged: readonly Charge[]): void {
    if (this.#real.size === 0) return
    const real = charged.flatMap(({ bucket, weight }) => {
      const found = this.#real.get(bucket)
      return found ? [{ bucket: found, weight }] : []
    })
    pay(real, this.#nowUs, this.#nowUs)
  }

  /** Whether the first lane of a bucket's wait list waits for the backend's answer: the claimer claims again then. */
  rests(bucket: Bucket): boolean {
    const backend = bucket.policy?.backend
    if (backend === undefined || this.#paid.size > 0 || this.#terms.backends.has(backend))
      return this.#resting.has(bucket)
    return true
  }

  /** Of these limits, those whose due wait lists the decision leaves as they are. */
  unserved(limits: readonly (readonly [limit: string, backend: string])[]): string[] {
    return unserved(this.#terms, limits)
  }

  /** Undoes the tentative starts. Answers their lanes, which `open` puts back at their places. */
  undo(open: (lane: Lane) => void): void {
    for (const [bucket, { state, active, granted, grantedUnits, changed }] of this.#real) {
      Object.assign(bucket, { state, active, granted, grantedUnits, changed })
      this.#resting.add(bucket)
    }
    for (const [lane, { changed, ...place }] of this.#lanes) {
      Object.assign(lane, place)
      open(lane)
      lane.changed = changed
    }
  }

  /** The decision is written: its starts are not for the next one. Answers what it wants. */
  written(): { readonly wanted?: readonly WantedStart[] } {
    for (const refused of this.#met.values()) refused.told = true
    for (const each of this.#terms.paid) {
      const id = idOfStart(each)
      const left = this.#paid.get(id)
      if (left === undefined) continue
      const kept = Math.min(left, each.starts)
      each.starts = kept
      this.#paid.set(id, left - kept)
    }
    return this.wanted.length === 0 ? {} : { wanted: this.wanted }
  }

  #isPaid(start: WantedStart): boolean {
    return (this.#paid.get(idOfStart(start)) ?? 0) > 0
  }

  /** The first bucket that must not be asked for more; null: none. */
  #closed(lane: Lane, head: Head): Bucket | null {
    const asked: [Bucket, number][] = []
    for (const [i, bucket] of lane.buckets.entries()) {
      const backend = bucket.policy?.backend
      if (backend === undefined) continue
      if (!this.#terms.backends.has(backend)) return bucket
      const before = this.#wanted.get(bucket) ?? 0
      const units = before + weightOf(head, i, bucket)
      if (before > 0 && units > (this.#terms.atMost.get(idOfBucket(bucket)) ?? Infinity)) return bucket
      asked.push([bucket, units])
    }
    for (const [bucket, units] of asked) this.#wanted.set(bucket, units)
    return null
  }
}

function placeOf({ next, turn, taken, changed, state }: Lane): Undo {
  return { next, turn, taken, changed: changed || state !== 'open' }
}

/** A start of a lane's head, by backend. */
function wantedOf(lane: Lane, head: Head): WantedStart[] {
  const byBackend = new Map<string, ElsewhereUse[]>()
  for (const [i, bucket] of lane.buckets.entries()) {
    const backend = bucket.policy?.backend
    if (backend === undefined) continue
    const { limit, key } = bucket
    const uses = byBackend.get(backend) ?? []
    byBackend.set(backend, uses)
    uses.push({ limit, key, weight: weightOf(head, i, bucket) })
  }
  return [...byBackend].map(([backend, uses]) => ({ backend, uses, priority: head.given }))
}
