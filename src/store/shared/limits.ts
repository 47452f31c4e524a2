/** Changes of limits: definitions, overrides and pauses, the pace of ageing, the limits of queues. */
import type { LimitDefinition, LimitPolicy } from '../../policy/limits/limit.ts'
import type { OverrideEvent } from '../../policy/limits/override.ts'
import type { Timeline } from '../../policy/limits/timeline.ts'
import type { Override, OverrideRequest } from '../contract/limits.ts'
import type { SetAside } from '../contract/set-aside.ts'
import type { DeclaredQueue } from '../contract/store.ts'
import { carryOver, wakeLimit, watchDrops } from './buckets.ts'
import { age, bump, comesToDrop, define, forget, gainsPermits, isNews, override } from './limit-changes.ts'
import { overrides, requested, superfluous } from './overrides.ts'
import { changesStarts, replaces, type StoredDeclaration, textOf } from './queue-limits.ts'
import { DEPUTY } from './lane-group.ts'
import { ask, type Reading } from './reading.ts'
import { LANE } from './state.ts'
import { type Access, get, now, run } from './sql.ts'
import { definitionsIn, type Timelines } from './timelines.ts'

const UNGROUP = `UPDATE sluice.lanes SET over = '' WHERE id IN (
  SELECT id FROM sluice.lanes WHERE state = ${LANE.waiting} AND over NOT IN ('', '${DEPUTY}') FOR UPDATE SKIP LOCKED)`

/** A transaction that changes limits. Only one runs at a time, and no claim decides meanwhile. */
class LimitChanges {
  readonly #access: Access
  readonly nowUs: number
  /** The limits with the changes so far. */
  limits: Timelines

  private constructor(access: Access, limits: Timelines, nowUs: number) {
    this.#access = access
    this.limits = limits
    this.nowUs = nowUs
  }

  static *begin(access: Access): Reading<LimitChanges> {
    yield* ask(() => access.lockLimits())
    const limits = yield* ask(() => access.limits())
    return new LimitChanges(access, limits, (yield* now(access)).nowUs)
  }

  /** Begins, and writes the ends of overrides that are over. */
  static *current(access: Access): Reading<LimitChanges> {
    const changes = yield* LimitChanges.begin(access)
    if (changes.limits.nextEndUs > changes.nowUs) return changes
    for (const name of changes.limits.names())
      for (const end of changes.timeline(name).overdue(changes.nowUs)) yield* changes.override(name, end)
    return changes
  }

  timeline(name: string): Timeline {
    return this.limits.timeline(name)
  }

  /** Defines a limit, again or for the first time. */
  *define(name: string, policy: LimitPolicy, version: number): Reading<void> {
    yield* this.#change(name, null, define(this.#access.db, this.limits, name, policy, version, this.nowUs))
    // Lanes with a guarantee in a bucket may stand in its group.
    if (policy.of) yield* run(this.#access.db, UNGROUP)
  }

  /** Adds the beginning or the end of an override or a pause. */
  *override(name: string, event: Omit<OverrideEvent, 'revision'>): Reading<void> {
    yield* this.#change(name, event.key, override(this.#access.db, this.limits, name, event))
  }

  /** Sets the pace of ageing from now on; null: priorities do not age. */
  *age(everyUs: number | null): Reading<void> {
    if (yield* age(this.#access.db, this.limits, everyUs, this.nowUs)) yield* this.readAgain()
  }

  /** Forgets changes that no bucket needs any more; returns the number of rows deleted. */
  *forget(name: string, revisions: readonly number[]): Reading<number> {
    const gone = yield* forget(this.#access.db, name, revisions)
    yield* this.readAgain()
    return gone
  }

  *readAgain(): Reading<void> {
    const generation = yield* bump(this.#access.db)
    yield* this.#keep(yield* ask(() => this.#access.readLimits(generation)))
  }

  /**
   * Changes the policy in force for a limit, or for one key of it (null: all). Every affected wait list is due at once:
   * the next claims carry its buckets over and re-time them.
   */
  *#change(limit: string, key: string | null, write: Reading<Timelines>): Reading<void> {
    const access = this.#access
    const { nowUs } = this
    const before = this.timeline(limit)
    yield* this.#keep(yield* write)
    const after = this.timeline(limit)
    yield* ask(() => access.writeLimit(limit, after))
    if (scopeOf(before) !== scopeOf(after)) yield* ask(() => access.changeScope(limit, nowUs))
    const concerned = key === null ? after.keys() : [key]
    const gains = (each: string | null): boolean => gainsPermits(before, after, each)
    if (concerned.some(gains)) yield* ask(() => access.countPermits(limit, this.limits, gains))
    for (const each of concerned) if (comesToDrop(before, after, each)) yield* watchDrops(access, limit, each, nowUs)
    yield* wakeLimit(access, limit, key, nowUs)
  }

  *#keep(limits: Timelines): Reading<void> {
    this.limits = limits
    yield* ask(() => this.#access.keepLimits(limits))
  }
}

/** An override cannot change the scope. */
function scopeOf({ definition }: Timeline): 'fleet' | 'worker' {
  return definition?.policy.scope ?? 'fleet'
}

/** Declares limits. A higher version wins; at the same version the later call does, so that the newest deployment decides. */
export function* defineLimits(access: Access, limits: readonly LimitDefinition[]): Reading<string[]> {
  const changes = yield* LimitChanges.current(access)
  const changed: string[] = []
  for (const each of limits) {
    const { name, policy, version } = each
    if (!isNews(changes.timeline(name), each)) continue
    yield* changes.define(name, policy, version)
    changed.push(name)
  }
  return changed
}

/** Stores the limits that code gives to queues; returns the queues whose starts now need other buckets. */
export function* declareQueues(access: Access, queues: readonly DeclaredQueue[]): Reading<string[]> {
  const { db } = access
  for (const each of queues) access.declared.set(each.queue, each)
  const changes = yield* LimitChanges.begin(access)
  const changed: string[] = []
  // In the order of their names, so that two engines that declare the same queues do not deadlock.
  for (const each of [...queues].sort((a, b) => (a.queue < b.queue ? -1 : 1))) {
    const { queue, version } = each
    yield* ask(() => access.lockQueue(queue))
    const known = (yield* get<[...StoredDeclaration]>(db, DECLARED, queue)) ?? [null, null]
    if (!replaces(each, known)) continue
    yield* run(db, DECLARE, queue, textOf(each), version)
    yield* changes.readAgain()
    if (changesStarts(each, known)) changed.push(queue)
  }
  return changed
}

const DECLARED = 'SELECT limits, limits_version FROM sluice.queues WHERE name = $1'
const DECLARE = 'UPDATE sluice.queues SET limits = $2, limits_version = $3 WHERE name = $1'

/** Begins, replaces or ends an override or a pause; false: there was none to end. */
export function* overrideLimit(access: Access, request: OverrideRequest): Reading<boolean> {
  const changes = yield* LimitChanges.current(access)
  const event = requested(changes.timeline(request.limit), request, changes.nowUs)
  if (event) yield* changes.override(request.limit, event)
  return event !== null
}

/**
 * Writes the ends of all overrides and pauses that are over, each at its own instant, and re-times their wait lists.
 * Every writer of buckets calls this first, since a bucket's state belongs to the policy of its last write.
 */
export function* endOverdue(access: Access): Reading<void> {
  const limits = yield* ask(() => access.limits())
  if (limits.nextEndUs <= (yield* now(access)).nowUs) yield* LimitChanges.current(access)
}

/** Sets the pace of ageing from now on; null: priorities do not age. */
export function* setAgeing(access: Access, everyUs: number | null): Reading<void> {
  yield* (yield* LimitChanges.begin(access)).age(everyUs)
}

/** Forgets the oldest ended changes, once no bucket needs them; returns the number of rows deleted. */
export function* pruneOverrides(access: Access, limit: number): Reading<number> {
  const long = (limits: Timelines): string[] =>
    limits.names().filter((name) => superfluous(limits.timeline(name), limit))
  if (long(yield* ask(() => access.limits())).length === 0) return 0
  const changes = yield* LimitChanges.current(access)
  let gone = 0
  for (const name of long(changes.limits)) {
    const old = superfluous(changes.timeline(name), limit)
    if (!old) continue
    const behind = yield* carryOver(access, changes.limits, name, old.untilRevision, limit)
    if (behind < limit) gone += yield* changes.forget(name, old.revisions)
  }
  return gone
}

/** The definition of every limit. */
export function* limits(access: Access): Reading<LimitDefinition[]> {
  return definitionsIn(yield* ask(() => access.limits()))
}

/** Every override and pause on record, of one limit or of all. */
export function* overridesOnRecord(access: Access, limit?: string): Reading<Override[]> {
  return overrides(yield* ask(() => access.limits()), limit)
}

/** The unreadable parts of the limits. */
export function* unreadable(access: Access): Reading<readonly SetAside[]> {
  return (yield* ask(() => access.limits())).aside
}
