import { SluiceError } from '../../../base/errors.ts'
import { show } from '../../../base/options.ts'
import { isStorable } from '../../../base/text.ts'
import { NEVER_US } from '../../../policy/admission/lane.ts'
import type { BucketState } from '../../../policy/limits/bucket.ts'
import { encodeBucket } from '../../../policy/limits/bucket-codec.ts'
import type { LimitPolicy } from '../../../policy/limits/limit.ts'
import type { Timeline } from '../../../policy/limits/timeline.ts'
import type { Instant } from '../../../jobs/series.ts'
import type { BucketName } from '../../../limiter/contract/limiter.ts'
import type { Ledger, LedgerBucket } from '../../../limiter/ledger/ledger.ts'
import { ask, type Reading } from '../reading.ts'
import { type Access, all, last, type OpenBuckets, run, type StandingRow } from '../sql.ts'
import type { StoredBucket } from '../stored-bucket.ts'
import type { Timelines } from '../timelines.ts'

const SAVE = `UPDATE sluice.buckets AS b SET state = e.value ->> 1, revision = (e.value ->> 2)::bigint,
  active = (e.value ->> 3)::bigint, touched = $2,
  wake_at = CASE WHEN b.wake_at > (e.value ->> 4)::bigint THEN (e.value ->> 4)::bigint ELSE b.wake_at END
  FROM json_array_elements($1::json) e WHERE b.id = (e.value ->> 0)::bigint`
const PERMIT = `INSERT INTO sluice.permits (id, buckets, until)
  SELECT e.value ->> 0, e.value ->> 1, (e.value ->> 2)::bigint FROM json_array_elements($1::json) e
  WHERE true ON CONFLICT (id) DO NOTHING RETURNING id`

/** A permit that a step takes. */
interface NewPermit {
  readonly id: string
  readonly buckets: number[]
  readonly untilUs: number
}

/** A locked bucket of the store, as the ledger of a limiter sees it. */
class LockedBucket implements LedgerBucket {
  readonly stored: StoredBucket
  readonly policy: LimitPolicy
  readonly #permits: Map<string, NewPermit>

  constructor(stored: StoredBucket, policy: LimitPolicy, permits: Map<string, NewPermit>) {
    this.stored = stored
    this.policy = policy
    this.#permits = permits
  }

  get limit(): string {
    return this.stored.limit
  }

  get key(): string {
    return this.stored.key
  }

  get state(): BucketState {
    return this.stored.state
  }

  set state(state: BucketState) {
    // The bucket of a claim changes in place; a limiter may put another in its place.
    Object.assign(this.stored, { state })
  }

  get active(): number {
    return this.stored.active
  }

  get changed(): boolean {
    return this.stored.changed
  }

  set changed(changed: boolean) {
    this.stored.changed = changed
  }

  takePermit(id: string, untilUs: number): void {
    const permit = this.#permits.get(id) ?? { id, buckets: [], untilUs }
    if (permit.buckets.includes(this.stored.id)) return
    this.#permits.set(id, permit)
    permit.buckets.push(this.stored.id)
    this.stored.active++
    this.stored.changed = true
  }
}

/** The buckets of one step, locked until its transaction ends. */
export class StoreLedger implements Ledger {
  readonly nowUs: number
  readonly instant: Instant
  readonly limits: Timelines
  /** The lanes in the wait lists of its buckets. */
  readonly standing: readonly StandingRow[]
  readonly #buckets = new Map<string, LockedBucket>()
  readonly #permits = new Map<string, NewPermit>()
  /** Its wait lists are evaluated again by the next claim. */
  wakes = false

  constructor({ buckets, limits, instant, standing }: OpenBuckets) {
    this.nowUs = instant.nowUs
    this.instant = instant
    this.limits = limits
    this.standing = standing
    for (const stored of buckets)
      if (stored.policy) this.#buckets.set(idOf(stored), new LockedBucket(stored, stored.policy, this.#permits))
  }

  bucket(limit: string, key: string): LockedBucket | null {
    return this.#buckets.get(idOf({ limit, key })) ?? null
  }

  timeline(limit: string): Timeline {
    return this.limits.timeline(limit)
  }

  get buckets(): readonly StoredBucket[] {
    return [...this.#buckets.values()].map(({ stored }) => stored)
  }

  /** Writes what the step has changed. @param isLast nothing else follows in its transaction */
  *save({ db }: Access, isLast = false): Reading<void> {
    yield* this.#takePermits(db)
    const { nowUs, limits, wakes } = this
    const rows = this.buckets
      .filter(({ changed }) => changed)
      .map(({ id, limit, state, active }) => [
        id,
        encodeBucket(state),
        limits.timeline(limit).revision,
        active,
        wakes ? nowUs : NEVER_US,
      ])
    if (rows.length === 0) return
    const write = isLast ? last : run
    yield* write(db, SAVE, JSON.stringify(rows), String(nowUs))
  }

  /** A call that is repeated takes no second permit. */
  *#takePermits(db: Access['db']): Reading<void> {
    if (this.#permits.size === 0) return
    const rows = [...this.#permits.values()].map(({ id, buckets, untilUs }) => [id, JSON.stringify(buckets), untilUs])
    const taken = new Set((yield* all<[string]>(db, PERMIT, JSON.stringify(rows))).map(([id]) => id))
    for (const { id, buckets } of this.#permits.values())
      if (!taken.has(id)) for (const bucket of this.buckets) if (buckets.includes(bucket.id)) bucket.active--
  }
}

/**
 * Locks the buckets of limits that are defined, and creates those that are new.
 * @throws {SluiceError} `limit.key.invalid` for a name that a store cannot keep
 */
export function* openLedger(access: Access, names: readonly BucketName[]): Reading<StoreLedger> {
  requireStorable(names)
  const wanted = new Map(names.map((name) => [idOf(name), name]))
  const sharedBy = (limits: Timelines): BucketName[] =>
    [...wanted.values()].filter(({ limit, key }) => isShared(limits.policy(limit, key)))
  let shared = sharedBy(access.knownLimits())
  for (;;) {
    const known = shared
    const opened = yield* ask(() => access.openBuckets(known))
    for (const { limit, key } of wanted.values()) requireShared(limit, opened.limits.policy(limit, key))
    // Other processes may have defined more of them meanwhile.
    shared = sharedBy(opened.limits)
    if (shared.length === known.length) return new StoreLedger(opened)
  }
}

/** Whether a limit is defined, and this store keeps one budget of it for all. */
function isShared(policy: LimitPolicy | null): boolean {
  return policy !== null && policy.scope !== 'worker' && policy.backend === undefined
}

/** @throws {SluiceError} `option.invalid` for a limit of scope `worker`, or with a backend */
function requireShared(limit: string, policy: LimitPolicy | null): void {
  if (policy?.scope === 'worker')
    throw new SluiceError(
      'option.invalid',
      `The limit ${limit} has the scope 'worker': each worker has a budget of its own for its jobs. Use a limit of scope 'fleet', or createLimiter({ backend: 'memory:' }).`,
    )
  if (policy?.backend !== undefined)
    throw new SluiceError(
      'option.invalid',
      `The backend ${policy.backend} keeps the budgets of the limit ${limit}, and not this store. Use createLimiter with the address of that backend.`,
    )
}

function idOf({ limit, key }: BucketName): string {
  return `${limit}\0${key}`
}

/** Callers keep such keys by their hashes. @throws {SluiceError} `limit.key.invalid` */
export function requireStorable(names: readonly BucketName[]): void {
  for (const { limit, key } of names)
    if (!isStorable(limit) || !isStorable(key))
      throw new SluiceError(
        'limit.key.invalid',
        `The bucket ${show(key)} of limit ${show(limit)} is invalid. Expected texts without NUL and half surrogate pairs.`,
      )
}
