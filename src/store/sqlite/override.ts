import { SluiceError } from '../../base/errors.ts'
import { applyOverride, type PolicyChange } from '../../policy/limits/override.ts'
import type { OverrideRequest } from '../contract/overrides.ts'
import { loadBucket, saveBucket } from './buckets.ts'
import { changeLimit } from './change-limit.ts'
import type { Context } from './context.ts'

const PAUSE: PolicyChange = { concurrency: 0 }
/** So many changes of a limit that are over are kept on record, and at most twice as many. */
const RECORDS_KEPT = 500

/**
 * Writes the ends of all overrides and pauses whose time is over, each as of its own moment, and has their lines re-timed. Whoever
 * writes buckets does so first: a bucket must know under what its state was written. Answers the store's clock.
 */
export function endOverdue(context: Context): number {
  const { policies } = context
  policies.refresh()
  const nowUs = context.clock.nowUs()
  if (policies.nextEndUs > nowUs) return nowUs
  for (const name of policies.names())
    for (const end of policies.timeline(name).overdue(nowUs))
      changeLimit(context, name, end.key, nowUs, () => policies.override(name, end))
  return nowUs
}

/** Begins, replaces or ends an override or a pause; false: there was none to end. */
export function override(context: Context, request: OverrideRequest): boolean {
  const { limit, key, kind, untilUs, by, reason } = request
  const nowUs = endOverdue(context)
  const timeline = context.policies.timeline(limit)
  if (!timeline.definition) throw new SluiceError('limit.unknown', `No limit ${limit} is defined in this store.`)
  const change = kind === 'pause' && request.change ? PAUSE : request.change
  const stands = timeline.records().some((each) => each.ended === null && each.kind === kind && each.key === key)
  if (change === null && !stands) return false
  if (change !== null && kind === 'override') applyOverride(timeline.definition.policy, change, `limit ${limit}`)
  changeLimit(context, limit, key, nowUs, () =>
    context.policies.override(limit, { kind, key, change, sinceUs: nowUs, untilUs, by, reason }),
  )
  return true
}

/** Forgets the oldest of what is over, once no bucket has to be carried through it any more; answers how many rows went. */
export function pruneOverrides(context: Context, limit: number, nowUs: number): number {
  let gone = 0
  for (const name of context.policies.names()) {
    const over = context.policies.timeline(name).over()
    if (over.length <= 2 * RECORDS_KEPT) continue
    const forgotten = over.slice(0, Math.min(over.length - RECORDS_KEPT, limit))
    const untilRevision = Math.max(...forgotten.map((each) => each.endRevision))
    const behind = context.db.all<[number]>(
      'SELECT id FROM buckets WHERE limit_name = ? AND revision < ? AND state IS NOT NULL LIMIT ?',
      name,
      untilRevision,
      limit,
    )
    for (const [id] of behind) {
      const bucket = loadBucket(context, id, nowUs)
      bucket.changed = true
      saveBucket(context, bucket, nowUs)
    }
    if (behind.length >= limit) continue
    gone += context.policies.forgetOverrides(
      name,
      forgotten.flatMap((each) => each.revisions),
    )
  }
  return gone
}
