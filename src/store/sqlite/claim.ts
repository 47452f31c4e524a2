import type { Admitted } from '../../jobs/job.ts'
import { Admission } from '../../policy/admission.ts'
import { type Grant, QueueShare } from '../../policy/queue-share.ts'
import { isFull } from '../../policy/refusal.ts'
import { NEVER_US } from '../../policy/lane.ts'
import type { Claim, ClaimRequest, QueueSlots } from '../store.ts'
import { bucketId } from './buckets.ts'
import { type Context, queueId, queueName } from './context.ts'
import { Decision } from './decision.ts'
import { fire, nextFireUs } from './fire.ts'
import { endOverdue } from './override.ts'
import { nextDueUs, promote } from './promote.ts'
import { rejectHeads, rejectLate } from './reject.ts'
import { occurrenceOf } from './schedule.ts'
import { STATE } from './state.ts'
import { throttling } from './throttling.ts'

type Row = [
  seq: number,
  id: string,
  task: string,
  queue: number,
  priority: number,
  input: string,
  attempt: number,
  maxAttempts: number,
  pushedBack: number,
  created: number,
  extra: string | null,
  schedule: string | null,
  occurs: number | null,
]

// An occurrence of a schedule has to start before the end of the series; a retry of it need not.
const ACTIVATE = `UPDATE jobs SET state = ${STATE.active}, attempt = attempt + 1, worker = ?1, due = ?2, started = ?3, permits = s.value ->> 1,
    expires = CASE WHEN schedule IS NULL THEN expires END
  FROM json_each(?4) s WHERE jobs.seq = s.value ->> 0 AND jobs.state = ${STATE.available}
  RETURNING seq, id, task, queue, coalesce(asked, priority), input, attempt, max_attempts, pushed_back, created, extra, schedule, occurs`

const DEFAULT_EVENT_WINDOW_US = 60_000_000
const AT_ONCE = 1000
const OPEN_LANES_AT_MOST = 4000
/** Lanes with a fair key alone are always open, and for a single start the first of thousands is enough. */
const FOR_ONE = 8

/** Takes the jobs that all their budgets admit at this instant, in turn, and says when to look again. */
export function claim(context: Context, request: ClaimRequest): Claim {
  endOverdue(context)
  const instant = context.clock.read()
  const { nowUs } = instant
  const moved = promote(context, instant, AT_ONCE)
  const fired = fire(context, instant, AT_ONCE)
  const late = rejectLate(context, instant, AT_ONCE)
  const decision = new Decision(context, nowUs, request.worker)
  const shares = request.queues.map((each) => shareOf(context, decision, each, nowUs))
  decision.serve(shares)
  const admission = new Admission(nowUs, Math.max(nowUs, context.turns.given), shares, decision)
  const more = decide(admission, decision, shares)
  const wakeUs = admission.retime()
  const jobs = activate(context, request, admission.grants, decision)
  const rejected = [...late, ...rejectHeads(context, admission.rejections, instant)]
  const told = throttling(context, decision, admission, request.eventWindowUs ?? DEFAULT_EVENT_WINDOW_US)
  decision.save()
  context.turns.given = admission.turn
  for (const share of shares) context.openLineNext.set(share.queue, share.openLineNext)
  const fireUs = rejected.some((job) => job.occurrence) ? nextFireUs(context, context.clock.read()) : fired.nextUs
  const again = more || isFull(admission.rejections) || moved >= AT_ONCE || late.length >= AT_ONCE
  const nextWakeUs = again
    ? nowUs
    : Math.min(
        wakeUs,
        fireUs,
        nextLineUs(context, nowUs, shares),
        nextDueUs(context, context.clock.read()),
        context.policies.nextEndUs,
      )
  return {
    jobs,
    nowUs,
    looks: admission.looks,
    rejected,
    schedules: fired.news,
    nextWakeUs: nextWakeUs >= NEVER_US ? null : nextWakeUs,
    nextFireUs: fireUs === NEVER_US ? null : fireUs,
    ...told,
  }
}

/** Feeds the decision in bounded portions until slots or candidates run out; true when candidates are left for which there is room. */
function decide(admission: Admission, decision: Decision, shares: readonly QueueShare[]): boolean {
  const room = (): number => shares.reduce((sum, share) => sum + share.slots, 0)
  let due = 0
  const skip = new Map(shares.map((share) => [share, 0]))
  for (let looked = 0; looked < OPEN_LANES_AT_MOST;) {
    const count = 64 + 2 * room()
    if (room() === 0) return false
    const buckets = decision.dueBuckets(count, due)
    due += buckets.length
    let found = buckets.length
    for (const bucket of buckets) admission.addDue(bucket)
    for (const share of shares) {
      if (share.slots === 0) continue
      const lanes = decision.openLanes(
        share.queue,
        looked === 0 && room() === 1 ? FOR_ONE : count,
        skip.get(share) ?? 0,
      )
      skip.set(share, (skip.get(share) ?? 0) + lanes.length)
      found += lanes.length
      for (const lane of lanes) admission.addLane(lane)
    }
    admission.decide()
    looked += found
    if (found === 0) return false
  }
  return room() > 0
}

function shareOf(context: Context, decision: Decision, { queue, slots, uses }: QueueSlots, nowUs: number): QueueShare {
  const id = queueId(context, queue)
  const buckets = uses.map((use) => ({
    bucket: decision.bucket(bucketId(context, use.limit, use.key, nowUs)),
    weight: use.weight,
  }))
  return new QueueShare(id, slots, buckets, context.openLineNext.get(id) ?? true, (of, skip, count) =>
    decision.openLine(of, skip, count),
  )
}

function activate(context: Context, request: ClaimRequest, grants: readonly Grant[], decision: Decision): Admitted[] {
  if (grants.length === 0) return []
  const { nowUs } = decision
  const starts = grants.map((grant) => [grant.head.seq, permitsOf(grant)])
  const rows = context.db.all<Row>(ACTIVATE, request.worker, nowUs + request.leaseUs, nowUs, JSON.stringify(starts))
  if (rows.length !== grants.length)
    throw new RangeError(`${grants.length} jobs were granted, ${rows.length} could be started`)
  const bySeq = new Map(rows.map((row) => [row[0], row]))
  return grants.map((grant) => toAdmitted(context, grant, bySeq.get(grant.head.seq) as Row, decision))
}

/**
 * The buckets whose permits a start holds. A queue's own bucket that has none stands there as a negative number: a lane does not name
 * it, and should its limit be given permits, this start has to hold one.
 */
function permitsOf({ lane, charged }: Grant): string | null {
  const ids: number[] = []
  for (const { bucket } of charged) {
    if (!bucket.policy) continue
    if (bucket.policy.concurrency !== null) ids.push(bucket.id)
    else if (!lane?.buckets.includes(bucket)) ids.push(-bucket.id)
  }
  return ids.length === 0 ? null : JSON.stringify(ids)
}

function toAdmitted(context: Context, grant: Grant, row: Row, decision: Decision): Admitted {
  const [seq, id, task, queue, priority, input, attempt, maxAttempts, pushedBack, createdUs, extra, schedule, occurs] =
    row
  const uses = grant.charged.map(({ bucket, weight }) => ({ limit: bucket.limit, key: bucket.key, weight }))
  const held = grant.lane && decision.waitedOn(grant.lane)
  return {
    seq,
    id,
    task,
    queue: queueName(context, queue),
    priority,
    input,
    attempt,
    maxAttempts,
    pushedBack,
    createdUs,
    availableUs: grant.head.sinceUs,
    startedUs: decision.nowUs,
    waitedFor: held && { limit: held.limit, key: held.key },
    extra,
    uses,
    ...occurrenceOf(schedule, occurs),
  }
}

/** When the next line that this decision did not touch is due. */
function nextLineUs(context: Context, nowUs: number, shares: readonly QueueShare[]): number {
  if (shares.every((share) => share.slots === 0)) return NEVER_US
  return context.db.get<[number | null]>('SELECT min(wake_at) FROM buckets WHERE wake_at > ?', nowUs)?.[0] ?? NEVER_US
}
