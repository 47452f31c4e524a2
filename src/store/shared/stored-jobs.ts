import type { StoredJob } from '../contract/find-jobs.ts'
import type { BucketUse } from '../contract/store.ts'
import { column, columns, texts } from './columns.ts'
import { details } from './job-details.ts'
import type { Reading } from './reading.ts'
import { areUses, bucketsIn, numbersIn, weightsOf } from './set-aside.ts'
import { type Access, all, isUuid } from './sql.ts'

const TERMS = columns({
  ...texts('id'),
  uniqueKey: column<string | null>('j.unique_key'),
  weights: column<string | null>('j.weights'),
  /** It waits for an engine that resolves its limits. */
  unresolved: column<boolean | number | null>(`substr(j.lane, 1, 1) = '?'`),
  buckets: column<string | null>('array_to_json(l.buckets)::text'),
  share: column<number | null>('l.share'),
})
const BUCKETS = 'SELECT id, limit_name, key FROM sluice.buckets WHERE id = ANY ($1::bigint[])'
type BucketRow = [id: number, limit: string, key: string]

/**
 * Jobs with their details and their terms, in the order of the ids; null: the job does not exist, or its limits are
 * unreadable. The work grows with the number of jobs alone: no place in a wait list is counted.
 */
export function* storedJobs(access: Access, ids: readonly string[]): Reading<(StoredJob | null)[]> {
  const { db, laneKey, limitName } = access
  const known = ids.filter(isUuid)
  if (known.length === 0) return ids.map(() => null)
  const found = yield* details(access, ids)
  const from = `FROM sluice.jobs j LEFT JOIN sluice.lanes l ON l.${laneKey} = j.lane WHERE j.id = ANY ($1::uuid[])`
  const rows = yield* all(db, `SELECT ${TERMS.of('j')}, ${selectNeeds(access)} ${from}`, known)
  const terms = rows.map((row) => ({ ...TERMS.read(row), needs: needsIn(row) }))
  const inLanes = terms.map(({ buckets }) => numbersIn(buckets ?? '[]'))
  const buckets = yield* all<BucketRow>(db, BUCKETS, [...new Set(inLanes.flatMap((ids) => ids ?? []))])
  const byId = new Map(buckets.map(([id, limit, key]) => [id, { limit: limitName(limit), key }]))
  const byJob = new Map(
    terms.flatMap(({ id, weights, uniqueKey, share, needs, unresolved }, at) => {
      const ofLane = inLanes[at]?.map((bucket) => byId.get(bucket) ?? null) ?? [null]
      const uses = usesOfJob(needs, ofLane, weights)
      if (uses === null) return []
      return [[id, { uses, uniqueKey, fairKey: needs[1], share: share ?? 1, isUnresolved: Boolean(unresolved) }]]
    }),
  )
  return found.map((job) => {
    const own = job && byJob.get(job.id)
    return own ? { ...job, ...own } : null
  })
}

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

/**
 * The uses of a job, from its own needs or else from the buckets of its lane, with its stored weights. Null: they are
 * unreadable.
 * @param ofLane null stands for an unknown bucket
 */
export function usesOfJob(
  [uses]: OwnNeeds,
  ofLane: readonly ({ readonly limit: string; readonly key: string } | null)[],
  weights: string | null,
): BucketUse[] | null {
  const units = weights === null ? [] : weightsOf(weights)
  const isReadable = uses !== null && areUses(uses)
  const named = isReadable ? bucketsIn(uses) : ofLane.flatMap((bucket) => bucket ?? [])
  const isLost = !isReadable && (named.length < ofLane.length || (uses !== null && named.length === 0))
  if (units === null || isLost) return null
  return named.map(({ limit, key }, i) => ({ limit, key, weight: units[i] ?? 1 }))
}
