import { SluiceError } from '../../base/errors.ts'
import { brief } from '../../base/options.ts'
import { applyOverride, type OverrideEvent, type PolicyChange } from '../../policy/limits/override.ts'
import type { Timeline } from '../../policy/limits/timeline.ts'
import type { Override, OverrideRequest } from '../contract/limits.ts'
import type { Timelines } from './timelines.ts'

/** Every override and pause on record, of one limit or of all, oldest first. */
export function overrides(limits: Pick<Timelines, 'names' | 'timeline'>, limit?: string): Override[] {
  const names = limit === undefined ? limits.names() : [limit]
  return names.flatMap((name) =>
    limits
      .timeline(name)
      .records()
      .map((record) => ({ limit: name, ...record })),
  )
}

/** The overrides and pauses in force for a bucket. */
export function overridesOf(limits: Pick<Timelines, 'timeline'>, limit: string, key: string): Override[] {
  return limits
    .timeline(limit)
    .overridesOf(key)
    .map((record) => ({ limit, ...record }))
}

/** Whether a pause is among those in force. */
export function isPaused(inForce: readonly Override[]): boolean {
  return inForce.some((each) => each.kind === 'pause')
}

/** The end of the pauses among these; null: there is none, or one has no end. */
export function pausedUntilUs(inForce: readonly Override[]): number | null {
  const pauses = inForce.filter((each) => each.kind === 'pause')
  if (pauses.length === 0 || pauses.some((each) => each.untilUs === null)) return null
  return Math.max(...pauses.map((each) => each.untilUs ?? 0))
}

const PAUSE: PolicyChange = { concurrency: 0 }
/** The store keeps this many ended changes of a limit, and at most twice as many. */
const RECORDS_KEPT = 500

/**
 * The change that a request makes to a limit; null: there is nothing to end. @throws {SluiceError} `limit.unknown`,
 * `policy.invalid`
 */
export function requested(
  timeline: Timeline,
  { limit, key, kind, untilUs, by, reason, change: given }: OverrideRequest,
  sinceUs: number,
): Omit<OverrideEvent, 'revision'> | null {
  if (!timeline.definition) throw new SluiceError('limit.unknown', `No limit ${brief(limit)} is defined in this store.`)
  const change = kind === 'pause' && given ? PAUSE : given
  const stands = timeline.records().some((each) => each.ended === null && each.kind === kind && each.key === key)
  if (change === null && !stands) return null
  if (change !== null && kind === 'override') applyOverride(timeline.definition.policy, change, `limit ${limit}`)
  return { kind, key, change, sinceUs, untilUs, by, reason }
}

/** The oldest ended changes of a limit beyond the number kept; null: there are none. */
export function superfluous(
  timeline: Timeline,
  atMost: number,
): { readonly untilRevision: number; readonly revisions: readonly number[] } | null {
  const over = timeline.over()
  if (over.length <= 2 * RECORDS_KEPT) return null
  const oldest = over.slice(0, Math.min(over.length - RECORDS_KEPT, atMost))
  const untilRevision = Math.max(...oldest.map((each) => each.endRevision))
  return { untilRevision, revisions: oldest.flatMap((each) => each.revisions) }
}
