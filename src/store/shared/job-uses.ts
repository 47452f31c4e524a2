import type { BucketUse } from '../contract/store.ts'
import { bucketsIn, weightsOf } from './set-aside.ts'
import type { Access } from './sql.ts'

/** The limits that the row of a job names, as text, and its fair key. */
export type OwnNeeds = readonly [uses: string | null, fairKey: string | null]

/**
 * Selects the own needs of a job `j`, as the last columns of its row. On SQLite only its lane `l` has them. On
 * PostgreSQL the row has them, and a lane is made once a job waits for its limits.
 */
export function selectNeeds({ laneKey }: Pick<Access, 'laneKey'>): string {
  return laneKey === 'id' ? 'NULL, l.fair' : 'j.uses, j.fair'
}

/** Reads the own needs of a job from its row. */
export function needsIn(row: readonly unknown[]): OwnNeeds {
  return row.slice(-2) as [string | null, string | null]
}

/** The uses of a job, from its own needs or else from the buckets of its lane, with its stored weights. */
export function usesOfJob(
  [uses]: OwnNeeds,
  ofLane: readonly { readonly limit: string; readonly key: string }[],
  weights: string | null,
): BucketUse[] {
  const units = weights === null ? null : weightsOf(weights)
  const named = uses === null ? ofLane : bucketsIn(uses)
  return named.map(({ limit, key }, i) => ({ limit, key, weight: units?.[i] ?? 1 }))
}
