import type { OverrideRequest } from '../contract/overrides.ts'
import { requested, superfluous } from '../shared/overrides.ts'
import { loadBucket, saveBucket } from './buckets.ts'
import { changeLimit } from './change-limit.ts'
import type { Context } from './context.ts'

/**
 * Writes the ends of all overrides and pauses that are over, each at its own instant, and re-times their wait lists.
 * Every writer of buckets calls this first, since a bucket's state belongs to the policy of its last write. Returns the
 * store's clock.
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
  const { limit, key } = request
  const nowUs = endOverdue(context)
  const event = requested(context.policies.timeline(limit), request, nowUs)
  if (event) changeLimit(context, limit, key, nowUs, () => context.policies.override(limit, event))
  return event !== null
}

/** Forgets the oldest ended changes, once no bucket needs them; returns the number of rows deleted. */
export function pruneOverrides(context: Context, limit: number, nowUs: number): number {
  let gone = 0
  for (const name of context.policies.names()) {
    const old = superfluous(context.policies.timeline(name), limit)
    if (!old) continue
    const behind = context.db.all<[number]>(
      'SELECT id FROM buckets WHERE limit_name = ? AND revision < ? AND state IS NOT NULL LIMIT ?',
      name,
      old.untilRevision,
      limit,
    )
    for (const [id] of behind) {
      const bucket = loadBucket(context, id, nowUs)
      bucket.changed = true
      saveBucket(context, bucket, nowUs)
    }
    if (behind.length >= limit) continue
    gone += context.policies.forgetOverrides(name, old.revisions)
  }
  return gone
}
