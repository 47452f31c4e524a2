import type { GrantedJob } from '../../jobs/job.ts'
import { guardedWindow } from '../../policy/limits/lateness.ts'
import { gapUs, isStrict } from '../../policy/limits/limit.ts'
import type { Grant } from '../../policy/admission/queue-slots.ts'
import type { LanesRead } from './lanes-read.ts'

/** A started job without the details of its start. */
export type StartedJob = Omit<
  GrantedJob,
  'startedUs' | 'waitedFor' | 'holds' | 'uses' | 'strict' | 'windows' | 'shadowed'
>

/** A started job for its worker. `grant`: a decision let it start; absent: no limit applies. */
export function grantedJob(job: StartedJob, startedUs: number, grant?: Grant, read?: LanesRead): GrantedJob {
  const on = grant?.lane && read?.waitedOn(grant.lane)
  const waitedFor = on ? { limit: on.limit, key: on.key } : null
  const uses = grant?.charged.map(({ bucket, weight }) => ({ limit: bucket.limit, key: bucket.key, weight })) ?? []
  const strict = grant?.charged.flatMap(({ bucket: { policy, limit, key }, weight }) =>
    policy && weight > 0 && isStrict(policy) ? [{ limit, key, gapUs: gapUs(policy, weight) }] : [],
  )
  const windows = grant?.charged.flatMap(({ bucket: { policy, limit, key }, weight }) => {
    const window = policy && weight > 0 && guardedWindow(policy)
    return window ? [{ limit, key, units: weight, ...window }] : []
  })
  const holds = grant?.charged.some(({ bucket: { policy } }) => policy && policy.concurrency !== null)
  const told = grant?.shadowed && { shadowed: grant.shadowed }
  return {
    ...job,
    startedUs,
    waitedFor,
    uses,
    ...(holds && { holds }),
    ...told,
    ...(strict?.length && { strict }),
    ...(windows?.length && { windows }),
  }
}

/**
 * The buckets whose permits a start holds; null: none. A queue's own bucket without permits is a negative number, since
 * a lane does not name it. If its limit gets permits later, this start has to hold one.
 */
export function permitsOf({ lane, charged }: Grant): number[] | null {
  const ids: number[] = []
  for (const { bucket } of charged) {
    if (!bucket.policy) continue
    if (bucket.policy.concurrency !== null) ids.push(bucket.id)
    else if (!lane?.buckets.includes(bucket)) ids.push(-bucket.id)
  }
  return ids.length === 0 ? null : ids
}
