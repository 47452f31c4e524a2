import type { BucketUse } from '../contract/store.ts'
import { usesIn } from '../shared/queue-limits.ts'
import type { SetAside } from '../contract/set-aside.ts'
import { areNumbers, parsed } from '../shared/set-aside.ts'
import { bucketId, wakeLine } from './buckets.ts'
import { type Context, queueName } from './context.ts'
import { nameFor } from './own.ts'
import { column, columns, numbersOrNull, texts } from '../shared/columns.ts'
import { LANE, STATE } from '../shared/state.ts'
import { ownBuckets } from './views.ts'

const LANE_ROW = columns({
  ...texts('key', 'buckets'),
  id: column<number>(),
  ...numbersOrNull('base', 'worker', 'bucket'),
})

/** Repairs lanes and permits whose lists of buckets are unreadable. */

/**
 * Restores the buckets of lanes from the lanes' names, if these spell them. A lane named by a hash is left empty: jobs
 * of the same limits find a new one.
 * @returns the lanes whose jobs are lost
 */
export function mendLanes(context: Context, nowUs: number): { readonly lost: number[]; readonly aside: SetAside[] } {
  const rows = context.db.all(`SELECT ${LANE_ROW.list} FROM lanes ORDER BY base IS NOT NULL`).map(LANE_ROW.read)
  const lost: number[] = []
  const aside: SetAside[] = []
  for (const { id, key, buckets, base, worker, bucket } of rows) {
    if (areNumbers(buckets)) continue
    aside.push({ kind: 'lane', name: String(id) })
    const found =
      base !== null && worker !== null ? bucketsOfView(context, base, worker, nowUs) : spelled(context, key, nowUs)
    if (found) {
      context.db.run('UPDATE lanes SET buckets = ? WHERE id = ?', JSON.stringify(found), id)
      continue
    }
    lost.push(id)
    if (bucket !== null) wakeLine(context, bucket, nowUs)
    context.db.run(
      `UPDATE lanes SET key = ?, buckets = '[]', state = ${LANE.empty}, bucket = NULL, over = NULL, deputy_of = NULL, sieve = NULL, emptied = ? WHERE id = ?`,
      `unreadable\0${id}`,
      nowUs,
      id,
    )
    // Running jobs may complete. They cannot run again, since their limits are unknown.
    context.db.run(`UPDATE jobs SET cancelling = 1 WHERE lane = ? AND state = ${STATE.active}`, id)
  }
  return { lost, aside }
}

/** The buckets that the name of a lane spells (jobs/lane.ts); null: it is a hash. */
function spelled(context: Context, key: string, nowUs: number): number[] | null {
  const parts = parsed(key.replace(/\0$/, ''))
  if (!Array.isArray(parts)) return null
  return parts
    .slice(1)
    .filter((part): part is [string, string] => Array.isArray(part))
    .map(([limit, of]) => bucketId(context, limit, of, nowUs))
}

function bucketsOfView(context: Context, base: number, worker: number, nowUs: number): number[] | null {
  const [text] = context.db.get<[string]>('SELECT buckets FROM lanes WHERE id = ?', base) ?? ['']
  const ids = areNumbers(text) ? (JSON.parse(text) as number[]) : []
  return ids.length === 0 ? null : ownBuckets(context, ids, worker, nowUs)
}

/** Restores unreadable permits of runs from their lanes and queues. */
export function mendPermits(context: Context, nowUs: number): number {
  const rows = context.db.all<[seq: number, permits: string, lane: number, queue: number, worker: number]>(
    `SELECT seq, permits, lane, queue, coalesce(worker, 0) FROM jobs WHERE state = ${STATE.active} AND permits IS NOT NULL`,
  )
  const gone = rows.filter(([, permits]) => !areNumbers(permits))
  for (const [seq, , lane, queue, worker] of gone) {
    const held = usesOf(context, lane, queue).flatMap(({ limit, key }) => {
      const policy = context.policies.current.policy(limit, key)
      return (policy?.concurrency ?? null) === null
        ? []
        : [bucketId(context, nameFor(context, limit, key, worker), key, nowUs)]
    })
    const permits = [...new Set(held)]
    context.db.run(
      'UPDATE jobs SET permits = ? WHERE seq = ?',
      permits.length === 0 ? null : JSON.stringify(permits),
      seq,
    )
  }
  return gone.length
}

function usesOf(context: Context, lane: number, queue: number): Pick<BucketUse, 'limit' | 'key'>[] {
  const ofLane = context.db.all<[string, string]>(
    'SELECT b.limit_name, b.key FROM lanes l, json_each(l.buckets) e, buckets b WHERE l.id = ? AND b.id = e.value',
    lane,
  )
  const [limits, given] = context.db.get<[string | null, string | null]>(
    'SELECT limits, limit_name FROM queues WHERE name = ?',
    queueName(context, queue),
  ) ?? [null, null]
  return [
    ...ofLane.map(([limit, key]) => ({ limit, key })),
    ...usesIn(limits),
    ...(given === null ? [] : [{ limit: given, key: '' }]),
  ]
}
