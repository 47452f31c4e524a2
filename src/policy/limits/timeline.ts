import { adopt, type BucketState, newBucket, reclock } from './bucket.ts'
import type { LimitPolicy } from './limit.ts'
import { enforced, shadowOf } from './shadow.ts'
import { applyFittingOverride, type OverrideEvent } from './override.ts'

/** A definition of a limit, the first or a later one. */
export interface DefinitionEvent {
  readonly kind: 'definition'
  readonly revision: number
  readonly sinceUs: number
  readonly policy: LimitPolicy
  readonly version: number
}

/** An override or a pause from its beginning to its end. */
export interface OverrideRecord extends Omit<OverrideEvent, 'revision' | 'change'> {
  readonly change: NonNullable<OverrideEvent['change']>
  /** Null: it is in force. One that another took the place of ended with that one's beginning. */
  readonly ended: { readonly atUs: number; readonly by: string | null; readonly reason: string | null } | null
}

interface Past {
  record: OverrideRecord
  readonly revisions: number[]
  endRevision: number | null
}

/** The rules that apply to one key at one moment. */
export interface InForce {
  /** Null: the limit is not defined. */
  readonly policy: LimitPolicy | null
  /** The same without regard to pauses. */
  readonly unpaused: LimitPolicy | null
  /** The last change that affects this key; 0: none. */
  readonly revision: number
  /** The first end of an override or a pause of this key from which on other rules hold; absent: there is none. */
  readonly endsUs?: number
}

/** The policy of an undefined limit, as its buckets see it. */
export const NO_POLICY: LimitPolicy = {
  rule: null,
  concurrency: null,
  onLimit: 'wait',
  maxWaitUs: null,
  retries: 'charge',
}

/**
 * All changes of one limit, in order: its definitions, and the overrides and pauses of all keys or of one. A key's
 * override wins over the limit's override, which wins over the definition. A pause of either stops it.
 *
 * A bucket stores the revision under which it was written. The next load applies the missed changes one by one, each at
 * its own time. So a change of a limit touches no buckets, and refills none for free.
 */
export class Timeline {
  readonly #events: readonly (DefinitionEvent | OverrideEvent)[]
  /** Changes of all keys. */
  readonly #shared: readonly (DefinitionEvent | OverrideEvent)[]
  /** Changes of one key alone, by the key. */
  readonly #own = new Map<string, OverrideEvent[]>()
  readonly #inForce = new Map<string | null, InForce>()
  readonly #ended = new Map<string | null, { readonly atUs: number; readonly timeline: Timeline }>()
  readonly #lost: number
  #records: readonly Past[] | null = null
  #standingNow: readonly OverrideRecord[] | null = null
  #standingOf: ReadonlyMap<string | null, readonly OverrideRecord[]> | null = null

  /** Units that starts within the guarantees of other limits find here. */
  readonly reserve: number

  /** @param events by revision, ascending. @param lost the last unreadable revision; all before it are unknown too */
  constructor(events: readonly (DefinitionEvent | OverrideEvent)[], lost = 0, reserve = 0) {
    this.#events = events
    this.#lost = lost
    this.reserve = reserve
    this.#shared = events.filter((event) => event.kind === 'definition' || event.key === null)
    for (const event of events) {
      if (event.kind === 'definition' || event.key === null) continue
      const own = this.#own.get(event.key)
      if (own) own.push(event)
      else this.#own.set(event.key, [event])
    }
  }

  /** The revision of the last change; 0: none. */
  get revision(): number {
    return this.#events.at(-1)?.revision ?? this.#lost
  }

  /** The definition in force. */
  get definition(): DefinitionEvent | null {
    return this.#events.findLast((event) => event.kind === 'definition') ?? null
  }

  /** The rules in force for a key now; null: for every key without changes of its own. */
  at(key: string | null): InForce {
    const own = key !== null && this.#own.has(key) ? key : null
    let found = this.#inForce.get(own)
    if (!found) {
      const fold = new Fold()
      for (const event of this.#eventsOf(own)) fold.apply(event)
      const { policy, ...rest } = fold.inForce()
      const reserve = this.reserve > 0 ? { reserve: this.reserve } : {}
      found = { ...rest, policy: policy && { ...shadowOf(policy), ...reserve } }
      const endsUs = this.#endOf(own, found)
      if (endsUs !== undefined) found = { ...found, endsUs }
      this.#inForce.set(own, found)
    }
    return found
  }

  /** The rules in force for a key at an earlier instant. */
  earlier(key: string, atUs: number): InForce {
    const events = this.#eventsOf(key).filter(({ sinceUs }) => sinceUs <= atUs)
    return new Timeline(events, this.#lost, this.reserve).at(key)
  }

  /** Null, and the keys that have changes of their own. */
  keys(): (string | null)[] {
    return [null, ...this.#own.keys()]
  }

  /** A stored bucket state, carried to now and to the rules in force; `stored` null: a new bucket. */
  carry(key: string, stored: BucketState | null, revision: number, nowUs: number): BucketState | null {
    const { policy, revision: last } = this.at(key)
    if (!policy) return stored
    if (!stored) return newBucket(policy, nowUs)
    const state = revision < last ? this.#replay(key, stored, revision) : stored
    return nowUs < state.atUs && policy.mode !== 'shadow' ? reclock(policy, state, nowUs) : state
  }

  /** This timeline and one change more. */
  with(event: DefinitionEvent | OverrideEvent): Timeline {
    return new Timeline([...this.#events, event], this.#lost, this.reserve)
  }

  /** The ends of overrides and pauses that are over at `nowUs`, as its next changes. */
  ends(nowUs: number): OverrideEvent[] {
    return this.#next(this.overdue(nowUs))
  }

  /** The changes of one key alone, with the ends of its overrides and pauses that are over at `nowUs`. */
  ended(key: string | null, nowUs: number): Timeline {
    const own = key !== null && this.#own.has(key) ? key : null
    const known = this.#ended.get(own)
    if (known?.atUs === nowUs) return known.timeline
    const ends = this.#next(overdueOf(this.overridesOf(own), nowUs))
    const timeline = new Timeline([...this.#eventsOf(own), ...ends], this.#lost, this.reserve)
    this.#ended.set(own, { atUs: nowUs, timeline })
    return timeline
  }

  #next(ends: readonly Omit<OverrideEvent, 'revision'>[]): OverrideEvent[] {
    return ends.map((end, i) => ({ ...end, revision: this.revision + 1 + i }))
  }

  /** The same changes, of a limit that keeps so many units for guarantees. */
  keeping(reserve: number): Timeline {
    return new Timeline(this.#events, this.#lost, reserve)
  }

  /** The ends of overrides and pauses that are over at `nowUs`, in time order. The timeline does not hold them yet. */
  overdue(nowUs: number): Omit<OverrideEvent, 'revision'>[] {
    return overdueOf(this.#standing(), nowUs)
  }

  /** When the next override or pause expires; Infinity: none expires. */
  get nextEndUs(): number {
    let nextUs = Infinity
    for (const { untilUs } of this.#standing()) nextUs = Math.min(nextUs, untilUs ?? Infinity)
    return nextUs
  }

  /** Every override and pause, oldest first. */
  records(): OverrideRecord[] {
    return this.#past().map((each) => each.record)
  }

  /** Overrides and pauses that are in force for a key: those of the limit, then its own. Null: those of the limit. */
  overridesOf(key: string | null): OverrideRecord[] {
    this.#standingOf ??= Map.groupBy(this.#standing(), (record) => record.key)
    return (key === null ? [null] : [null, key]).flatMap((of) => this.#standingOf?.get(of) ?? [])
  }

  /** The changes that make up each override that is over, by its end: the last of them is the end, or what took its place. */
  over(): { readonly revisions: readonly number[]; readonly endRevision: number }[] {
    return this.#past()
      .flatMap(({ revisions, endRevision }) => (endRevision === null ? [] : { revisions, endRevision }))
      .sort((a, b) => a.endRevision - b.endRevision)
  }

  #standing(): readonly OverrideRecord[] {
    this.#standingNow ??= this.records().filter((record) => record.ended === null)
    return this.#standingNow
  }

  #endOf(own: string | null, { policy }: InForce): number | undefined {
    const endsUs = Math.min(...this.overridesOf(own).map(({ untilUs }) => untilUs ?? Infinity))
    if (endsUs === Infinity) return undefined
    const after = this.ended(own, endsUs).at(own)
    return JSON.stringify(after.policy) === JSON.stringify(policy) ? after.endsUs : endsUs
  }

  #eventsOf(key: string | null): readonly (DefinitionEvent | OverrideEvent)[] {
    const own = key === null ? undefined : this.#own.get(key)
    return own ? [...this.#shared, ...own].sort((a, b) => a.revision - b.revision) : this.#shared
  }

  #past(): readonly Past[] {
    if (this.#records) return this.#records
    const standing = new Map<string, number>()
    const records: Past[] = []
    for (const event of this.#events) {
      if (event.kind === 'definition') continue
      const { revision, change, ...rest } = event
      const slot = slotOf(event)
      const earlier = records[standing.get(slot) ?? -1]
      if (earlier) {
        const ended = { atUs: event.sinceUs, by: event.by, reason: change === null ? event.reason : null }
        earlier.record = { ...earlier.record, ended }
        earlier.endRevision = revision
        if (change === null) earlier.revisions.push(revision)
      }
      if (change === null) standing.delete(slot)
      else
        standing.set(
          slot,
          records.push({ record: { ...rest, change, ended: null }, revisions: [revision], endRevision: null }) - 1,
        )
    }
    this.#records = records
    return records
  }

  #replay(key: string, stored: BucketState, revision: number): BucketState {
    const fold = new Fold()
    let state = stored
    let from: LimitPolicy | null = null
    for (const event of this.#eventsOf(key)) {
      const missed = event.revision > revision
      if (missed) from ??= fold.inForce().policy ?? NO_POLICY
      fold.apply(event)
      if (!from) continue
      const to: LimitPolicy = fold.inForce().policy ?? NO_POLICY
      const leavesShadow = from.mode === 'shadow' && to.mode !== 'shadow'
      state = adopt(from, to, state, leavesShadow ? event.sinceUs : Math.max(event.sinceUs, state.atUs))
      from = to
    }
    return state
  }
}

function overdueOf(standing: readonly OverrideRecord[], nowUs: number): Omit<OverrideEvent, 'revision'>[] {
  return standing
    .flatMap(({ kind, key, untilUs }) => (untilUs !== null && untilUs <= nowUs ? { kind, key, untilUs } : []))
    .sort((a, b) => a.untilUs - b.untilUs)
    .map((end) => ({ ...end, sinceUs: end.untilUs, change: null, by: null, reason: null }))
}

/** Plays changes one after another, all of them of one key. */
class Fold {
  #definition: LimitPolicy | null = null
  #revision = 0
  readonly #standing = new Map<string, OverrideEvent>()
  #now: InForce | null = null

  apply(event: DefinitionEvent | OverrideEvent): void {
    this.#now = null
    this.#revision = event.revision
    if (event.kind === 'definition') this.#definition = event.policy
    else if (event.change === null) this.#standing.delete(slotOf(event))
    else this.#standing.set(slotOf(event), event)
  }

  inForce(): InForce {
    this.#now ??= this.#compute()
    return this.#now
  }

  #compute(): InForce {
    const definition = this.#definition
    if (!definition) return { policy: null, unpaused: null, revision: this.#revision }
    const standing = [...this.#standing.values()]
    const changes = standing.filter((event) => event.kind === 'override')
    let unpaused = definition
    // The limit's changes come first, so that the key's own win.
    for (const each of changes)
      if (each.key === null && each.change) unpaused = applyFittingOverride(unpaused, each.change)
    for (const each of changes)
      if (each.key !== null && each.change) unpaused = applyFittingOverride(unpaused, each.change)
    const paused = standing.some((event) => event.kind === 'pause')
    const policy = paused ? { ...enforced(unpaused), concurrency: 0 } : unpaused
    return { policy, unpaused, revision: this.#revision }
  }
}

/** At most one override and one pause stand for a key, and one of each for the limit. */
function slotOf({ kind, key }: Pick<OverrideEvent, 'kind' | 'key'>): string {
  return JSON.stringify([kind, key])
}
