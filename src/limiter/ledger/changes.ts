/** Changes of limits, as plain data: each makes a new timeline of one limit. */
import { SluiceError } from '../../base/errors.ts'
import { brief } from '../../base/options.ts'
import type { LimitDefinition, LimitPolicy } from '../../policy/limits/limit.ts'
import { applyOverride, type OverrideEvent } from '../../policy/limits/override.ts'
import { type DefinitionEvent, Timeline } from '../../policy/limits/timeline.ts'
import type { ChangeRequest } from '../contract/limiter.ts'

/** A change of a limit. */
export type LimitEvent = DefinitionEvent | OverrideEvent

/** A backend keeps this many changes of a limit, and at most twice as many. */
const CHANGES_KEPT = 200

/** The timeline of a limit that was never defined. */
export const UNDEFINED: Timeline = new Timeline([])

/** The change that a definition makes; null: it changes nothing. A lower version loses against a higher one. */
export function definitionEvent(
  timeline: Timeline,
  { policy, version }: LimitDefinition,
  sinceUs: number,
): LimitEvent | null {
  const { definition: known } = timeline
  if (known && version < known.version) return null
  if (known && known.version === version && JSON.stringify(known.policy) === JSON.stringify(policy)) return null
  return { kind: 'definition', revision: timeline.revision + 1, sinceUs, policy, version }
}

/**
 * The change that a request makes; null: there is nothing to end.
 * @throws {SluiceError} `limit.unknown`, `policy.invalid`
 */
export function changeEvent(timeline: Timeline, request: ChangeRequest, sinceUs: number): LimitEvent | null {
  const { limit, key, kind, forUs, by, reason } = request
  const { definition } = timeline
  if (!definition) throw undefinedLimit(limit)
  const change = kind === 'pause' && request.change ? { concurrency: 0 } : request.change
  const stands = timeline.records().some((each) => each.ended === null && each.kind === kind && each.key === key)
  if (change === null && !stands) return null
  if (change !== null && kind === 'override') {
    refuseOfJobs(definition.policy, applyOverride(definition.policy, change, `limit ${limit}`), limit)
  }
  const untilUs = forUs === null || change === null ? null : sinceUs + forUs
  return { kind, revision: timeline.revision + 1, sinceUs, key, change, untilUs, by, reason }
}

/** The error of a verb whose limit is not defined, or was lost. */
export function undefinedLimit(limit: string): SluiceError {
  return new SluiceError('limit.unknown', `No limit ${brief(limit)} is defined. List it in createLimiter({ limits }).`)
}

/** The ends of overrides and pauses that are over, as changes; empty: none is. */
export function endEvents(timeline: Timeline, nowUs: number): LimitEvent[] {
  if (timeline.nextEndUs > nowUs) return []
  return timeline.ends(nowUs)
}

/** The changes of a limit to keep: without the oldest that are over. */
export function kept(events: readonly LimitEvent[]): readonly LimitEvent[] {
  if (events.length <= 2 * CHANGES_KEPT) return events
  const timeline = new Timeline(events)
  const gone = new Set<number>()
  for (const { revisions } of timeline.over()) {
    if (events.length - gone.size <= CHANGES_KEPT) break
    for (const revision of revisions) gone.add(revision)
  }
  const last = timeline.definition?.revision ?? 0
  for (const { kind, revision } of events) {
    if (events.length - gone.size <= CHANGES_KEPT) break
    if (kind === 'definition' && revision !== last) gone.add(revision)
  }
  return events.filter(({ revision }) => !gone.has(revision))
}

/** Refuses what only a store does, for its jobs. @throws {SluiceError} `policy.invalid` */
function refuseOfJobs(from: LimitPolicy, to: LimitPolicy, limit: string): void {
  // The jobs of a limit with a backend stand in a store, which has their bounds.
  const ofJobs = from.backend !== undefined
  const field =
    to.mode === 'shadow'
      ? 'mode'
      : ofJobs
        ? null
        : from.onLimit !== to.onLimit
          ? 'onLimit'
          : from.maxWaitUs !== to.maxWaitUs
            ? 'maxWait'
            : from.retries !== to.retries
              ? 'retries'
              : null
  if (field !== null)
    throw new SluiceError(
      'policy.invalid',
      `limit ${limit}: an override cannot change ${field} here: only a store can, for its jobs. Remove ${field}.`,
    )
}
