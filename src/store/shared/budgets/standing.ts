import { stepsAt } from '../../../policy/admission/ageing.ts'
import { mayPass } from '../../../policy/admission/calls.ts'
import { levelOf } from '../../../policy/admission/guaranteed.ts'
import { NEVER_US } from '../../../policy/admission/lane.ts'
import type { Denied, UnitRequest } from '../../../limiter/contract/limiter.ts'
import { isAssured, openingOf } from '../../../limiter/ledger/acquire.ts'
import { isOfTickets } from '../../contract/budgets.ts'
import type { Reading } from '../reading.ts'
import { lockBuckets } from '../buckets.ts'
import { type Access, all, type OpenBuckets, type StandingRow } from '../sql.ts'
import { LANE } from '../state.ts'
import { servedQueues } from '../workers.ts'
import type { StoreLedger } from './ledger.ts'

/** The lanes that stand in the wait lists of the buckets $1. */
export const STANDING: string = `SELECT l.bucket, l.queue, max(l.priority), min(l.turn) FROM sluice.lanes l
  WHERE l.bucket = ANY ($1::bigint[]) AND l.state = ${LANE.waiting} GROUP BY l.bucket, l.queue`

/** Locks buckets, and reads what a decision about them needs, question by question. */
export function* openEach(access: Access, ids: readonly number[]): Reading<OpenBuckets> {
  const opened = yield* lockBuckets(access, ids)
  const isWaitedFor = opened.buckets.some(({ wakeAtUs }) => wakeAtUs !== null)
  return { ...opened, standing: isWaitedFor ? yield* all<[...StandingRow]>(access.db, STANDING, ids) : [] }
}

/** The lanes that hold newcomers up at one bucket. */
interface Holders {
  /** The highest level of those before which nothing of their level starts. */
  level: number
  /** The calls of other processes, before which calls of their level may start: their highest level and earliest turn. */
  readonly calls: { level: number; turn: number }
}

/** The lanes that stand in wait lists and hold newcomers up, by bucket. */
export type Standing = ReadonlyMap<number, Holders>

/**
 * The lanes that hold newcomers up: not those of a queue that is paused, or without a live worker.
 * @param own the queue of the newcomers' process
 */
export function* standingAt(access: Access, ledger: StoreLedger, own: string | null): Reading<Standing> {
  const standing = new Map<number, Holders>()
  if (ledger.standing.length === 0) return standing
  const served = yield* servedQueues(access, ledger.nowUs)
  const waitedFor = new Set(ledger.buckets.filter(({ wakeAtUs }) => wakeAtUs !== null).map(({ id }) => id))
  for (const [bucket, stored, level, turn] of ledger.standing) {
    const queue = access.queueName(stored)
    if (!served.has(queue) || !waitedFor.has(bucket)) continue
    const holders = standing.get(bucket) ?? { level: -Infinity, calls: { level: -Infinity, turn: Infinity } }
    const of = own !== null && queue !== own && isOfTickets(queue) ? holders.calls : holders
    of.level = Math.max(level, of.level)
    if (of === holders.calls) of.turn = Math.min(turn, of.turn)
    standing.set(bucket, holders)
  }
  return standing
}

/** The denial of a request that a lane in a wait list holds up; null: none does. */
export function heldUp(ledger: StoreLedger, standing: Standing, request: UnitRequest): Denied | null {
  if (standing.size === 0) return null
  const { uses, priority } = request
  const buckets = uses.flatMap(({ limit, key }) => ledger.bucket(limit, key) ?? [])
  const { ageing } = ledger.limits
  const steps = stepsAt(ageing, ledger.nowUs)
  const { nowUs } = ledger
  const before = buckets.find((bucket) => {
    const holders = standing.get(bucket.stored.id)
    if (!holders) return false
    const level = levelOf(priority - steps, isAssured(buckets, uses, bucket, nowUs))
    const { calls } = holders
    return (
      holders.level >= level ||
      calls.level > level ||
      (calls.level === level && !mayPass(calls.turn, bucket.stored, nowUs))
    )
  })
  if (!before) return null
  const opening = openingOf(ledger, buckets, request, nowUs)
  const { wakeAtUs: wakesUs, endsUs } = before.stored
  // At the end of an override the lanes before it are evaluated by other rules.
  const wakeAtUs = Math.min(wakesUs ?? nowUs, wakesUs === NEVER_US ? NEVER_US : (endsUs ?? NEVER_US))
  const atUs = Math.max(opening.atUs, wakeAtUs === NEVER_US ? Infinity : wakeAtUs)
  const by = opening.by ?? before
  return {
    kind: 'denied',
    by: { limit: by.limit, key: by.key },
    retryAfterUs: atUs === Infinity ? null : Math.max(1, atUs - nowUs),
  }
}
