import type { Statements } from '../../database/postgres.ts'
import { type Bucket, deniedUntilUs, NEVER_US } from '../../policy/admission/lane.ts'
import { refusalBehaviour } from '../../policy/admission/refusal.ts'
import { clockOf, firstFrom, type Instant, upcoming } from '../shared/series.ts'
import type { BucketUse } from '../contract/store.ts'
import type { Timelines } from '../shared/timelines.ts'
import { findBucket } from './buckets.ts'
import type { Context } from './context.ts'
import { find, isReadable, lockSchedules, save } from './schedule.ts'

/**
 * Whether the buckets of an occurrence, asked before it is stored, let it start only after its `maxWait` or not before `endUs`, or
 * drop it: then when they would let it start, NEVER_US when a permit has to return. Null: it may be in time, as far as they tell.
 */
export async function startsTooLateUs(
  db: Statements,
  limits: Timelines,
  { uses, priority }: { readonly uses: readonly BucketUse[]; readonly priority: number },
  instant: Instant,
  endUs: number,
): Promise<number | null> {
  if (uses.length === 0) return null
  const { nowUs } = instant
  const buckets: Bucket[] = []
  const refusing: Bucket[] = []
  let startUs = nowUs
  for (const { limit, key, weight } of uses) {
    const bucket = await findBucket(db, limits, instant, limit, key)
    if (!bucket) continue
    buckets.push(bucket)
    const deniedUs = deniedUntilUs(bucket, weight, nowUs, priority)
    if (deniedUs === null) continue
    refusing.push(bucket)
    startUs = Math.max(startUs, deniedUs)
  }
  const head = { seq: 0, priority, given: priority, weights: null, attempt: 0, sinceUs: nowUs }
  const behaviour = refusalBehaviour(refusing, buckets, head, startUs)
  return behaviour === 'drop' || behaviour === 'late' || (startUs >= endUs && startUs !== NEVER_US) ? startUs : null
}

/**
 * An occurrence that waited will not start in time: it was no run, and its series goes on with the first one due when its limits
 * let it start again.
 * @param resumeUs on the store's clock; null: not known.
 */
export async function skipOccurrence(
  context: Context,
  db: Statements,
  name: string,
  resumeUs: number | null,
  instant: Instant,
): Promise<void> {
  await lockSchedules(db)
  const schedule = await find(db, name)
  if (!schedule) return
  const clockUs = clockOf(schedule, instant)
  const fromUs = resumeUs === null ? clockUs : Math.max(clockUs, clockUs + resumeUs - instant.nowUs)
  schedule.runs = Math.max(0, schedule.runs - 1)
  if (!isReadable(context, schedule)) return save(db, schedule)
  if (schedule.nextUs === null || (schedule.nextUs < fromUs && resumeUs !== null))
    schedule.nextUs = upcoming(schedule, firstFrom(schedule, fromUs), instant)
  // Limits that are used up have ended the making up for what was missed.
  if (schedule.nextUs === null || schedule.nextUs > (schedule.catchUpToUs ?? 0)) schedule.catchUpToUs = null
  await save(db, schedule)
}
