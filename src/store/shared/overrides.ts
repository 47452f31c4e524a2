import type { Override } from '../contract/overrides.ts'
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

/** What is in force for a bucket beside the definition. */
export function overridesOf(limits: Pick<Timelines, 'timeline'>, limit: string, key: string): Override[] {
  return limits
    .timeline(limit)
    .overridesOf(key)
    .map((record) => ({ limit, ...record }))
}

/** Whether a pause is among what is in force. */
export function isPaused(inForce: readonly Override[]): boolean {
  return inForce.some((each) => each.kind === 'pause')
}

/** When the pauses among these are over; null: there is none, or one of them stands until it is ended. */
export function pausedUntilUs(inForce: readonly Override[]): number | null {
  const pauses = inForce.filter((each) => each.kind === 'pause')
  if (pauses.length === 0 || pauses.some((each) => each.untilUs === null)) return null
  return Math.max(...pauses.map((each) => each.untilUs ?? 0))
}
