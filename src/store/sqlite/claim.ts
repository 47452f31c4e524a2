import type { GrantedJob } from '../../jobs/job.ts'
import { Admission } from '../../policy/admission/admission.ts'
import { type Grant, QueueSlots } from '../../policy/admission/queue-slots.ts'
import { NEVER_US } from '../../policy/admission/lane.ts'
import { isFull } from '../../policy/admission/refusal.ts'
import { knownTasks } from '../contract/known-tasks.ts'
import { usesIn } from '../shared/queue-limits.ts'
import type { BucketUse, Claim, ClaimRequest, QueueRequest } from '../contract/store.ts'
import { grantedJob, permitsOf } from '../shared/claim-answer.ts'
import { occurrenceOf } from '../shared/series.ts'
import { advance } from './advance.ts'
import { bucketId } from './buckets.ts'
import { type Context, queueId, queueName } from './context.ts'
import { Decision } from './decision.ts'
import { fire, nextFireUs } from './fire.ts'
import { endOverdue } from './override.ts'
import { arrive } from './lanes.ts'
import { nameFor, ownQueue } from './own.ts'
import { ParentResults } from './parent-results.ts'
import { nextDueUs, promote } from './promote.ts'
import { book, rejectHeads, rejectLate } from './reject.ts'
import { LANE, STATE } from '../shared/state.ts'
import { type ClosedOn, named, type RefusedRow, toName, WAITING_COUNTED } from '../shared/refused-head.ts'
import { throttling } from '../shared/throttling.ts'
import { adopt } from './views.ts'

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
  flow: number | null,
  node: number | null,
]

// An occurrence of a schedule has to start before the end of its series; a retry of it need not.
const ACTIVATE = `UPDATE jobs SET state = ${STATE.active}, attempt = attempt + 1, worker = ?1, due = ?2, started = ?3, permits = s.value ->> 1, ends = NULL, claim = NULL, booked = NULL,
    expires = CASE WHEN schedule IS NULL THEN expires END
  FROM json_each(?4) s WHERE jobs.seq = s.value ->> 0 AND jobs.state = ${STATE.available}
  RETURNING seq, id, task, queue, coalesce(asked, priority), input, attempt, max_attempts, pushed_back, created, extra, schedule, occurs, flow, node`

const DEFAULT_EVENT_WINDOW_US = 60_000_000
const OWN_TERMS = `UPDATE jobs SET due = started + coalesce(lease, ?1), leased = coalesce(lease, ?1), ends = started + timeout, claim = ?3 FROM json_each(?2) s WHERE jobs.seq = s.value ->> 0`

const AT_ONCE = 1000
const OPEN_LANES_AT_MOST = 4000
/** Lanes with only a fair key are always open, and a single start needs only the first of thousands. */
const FOR_ONE = 8

/** Takes the jobs that all their budgets admit at this instant, in turn, and returns the time of the next claim. */
export function claim(context: Context, request: ClaimRequest): Claim {
  endOverdue(context)
  const instant = context.clock.read()
  const { nowUs } = instant
  const moved = promote(context, instant, AT_ONCE)
  const fired = fire(context, instant, AT_ONCE)
  const inFlows: number[] = []
  const late = rejectLate(context, instant, AT_ONCE, inFlows)
  const joining = takeViews(context, request, nowUs)
  const decision = new Decision(context, nowUs, request.worker, knownTasks(request.tasks), !request.remote)
  const work = atWork(context, request)
  const shares = work.queues.map((each) => shareOf(context, decision, each, nowUs, request.worker))
  decision.serve(shares)
  const admission = new Admission(nowUs, Math.max(nowUs, context.turns.given), shares, decision)
  const more = decide(admission, decision, shares, request.worker, work.parked)
  const wakeUs = admission.retime()
  const jobs = activate(context, request, admission.grants, decision)
  const rejected = [...late, ...rejectHeads(context, admission.rejections, instant, inFlows)]
  book(context, admission.lateScan.reservations)
  const told = throttling(
    (queue) => queueName(context, queue),
    decision,
    admission,
    request.eventWindowUs ?? DEFAULT_EVENT_WINDOW_US,
  )
  decision.save()
  const unknown = decision.unknown()
  const flows = [...advance(context, inFlows, instant).values()]
  context.turns.given = admission.turn
  for (const share of shares) context.unlimitedNext.set(share.queue, share.unlimitedNext)
  const fireUs = rejected.some((job) => job.occurrence) ? nextFireUs(context, context.clock.read()) : fired.nextUs
  const dueUs = nextDueUs(context, context.clock.read())
  const again =
    flows.length > 0 ||
    joining ||
    more ||
    admission.lateScan.unfinished ||
    admission.unfinished ||
    isFull(admission.rejections) ||
    moved >= AT_ONCE ||
    late.length >= AT_ONCE
  const nextWakeUs = again
    ? nowUs
    : Math.min(wakeUs, fireUs, nextLineUs(context, nowUs, shares, request.worker), dueUs, context.policies.nextEndUs)
  return {
    jobs,
    nowUs,
    looks: admission.looks,
    rejected,
    schedules: fired.news,
    flows,
    nextWakeUs: nextWakeUs >= NEVER_US ? null : nextWakeUs,
    nextFireUs: Math.min(fireUs, dueUs) >= NEVER_US ? null : Math.min(fireUs, dueUs),
    ...told,
    closed: named(told.closed, refusedRows(context, toName(told.closed)), waitingIn(context, told.closed)),
    ...(unknown.length > 0 && { unknown }),
  }
}

/** Counts the jobs in the wait lists of closed buckets, once their lanes are written. */
function waitingIn(context: Context, closed: readonly ClosedOn[]): [number, number][] {
  return closed.map(({ bucket }) => {
    const [jobs] = context.db.get<[number]>(
      `SELECT count(*) FROM (SELECT 1 FROM lanes l CROSS JOIN jobs j ON j.lane = coalesce(l.base, l.id) AND j.state = ${STATE.available}
       WHERE l.bucket = ? AND l.state = ${LANE.waiting} LIMIT ${WAITING_COUNTED})`,
      bucket,
    ) as [number]
    return [bucket, jobs]
  })
}

function refusedRows(context: Context, seqs: readonly number[]): RefusedRow[] {
  if (seqs.length === 0) return []
  return context.db.all<RefusedRow>(
    `SELECT seq, task, (SELECT id FROM flows WHERE seq = j.flow), node, (SELECT total FROM flows WHERE seq = j.flow)
     FROM json_each(?) e CROSS JOIN jobs j ON j.seq = e.value`,
    JSON.stringify(seqs),
  )
}

/** Creates the views of a worker that has joined; true: more lanes are left. */
function takeViews(context: Context, { worker, queues }: ClaimRequest, nowUs: number): boolean {
  if (context.adopted.get(worker) === Infinity) return false
  const served = new Set(queues.map(({ queue }) => queueId(context, queue)))
  return adopt(context, worker, served, nowUs, (view, priority, seq) => arrive(context, view, priority, seq, nowUs))
}

/** Feeds the decision in bounded batches until slots or candidates run out; true: there is room for more candidates. */
function decide(
  admission: Admission,
  decision: Decision,
  shares: readonly QueueSlots[],
  worker: number,
  parked: boolean,
): boolean {
  const room = (): number => shares.reduce((sum, share) => sum + share.slots, 0)
  const due = new Map<number, number>()
  const skip = new Map<number, number>()
  const seen = new Map<number, number>()
  for (let looked = 0; looked < OPEN_LANES_AT_MOST;) {
    const count = 64 + 2 * room()
    if (room() === 0) return false
    let found = 0
    for (const whose of [0, worker]) {
      const buckets = decision.dueBuckets(whose, count, due.get(whose) ?? 0)
      due.set(whose, (due.get(whose) ?? 0) + buckets.length)
      found += buckets.length
      for (const bucket of buckets) admission.addDue(bucket)
    }
    for (const share of shares) {
      if (share.slots === 0) continue
      const portion = looked === 0 && room() === 1 ? FOR_ONE : count
      for (const queue of [share.queue, share.ownQueue]) {
        const lanes = decision.openLanes(queue, portion, skip.get(queue) ?? 0)
        skip.set(queue, (skip.get(queue) ?? 0) + lanes.length)
        found += lanes.length
        for (const lane of lanes) admission.addLane(lane)
        if (!parked) continue
        const others = decision.parkedLanes(queue, portion, seen.get(queue) ?? 0)
        seen.set(queue, (seen.get(queue) ?? 0) + portion)
        found += others.length
        for (const lane of others) admission.addLane(lane)
      }
    }
    admission.decide()
    looked += found
    if (found === 0) return false
  }
  return room() > 0
}

/** A claiming queue, with its own limits. */
interface QueueAtWork extends QueueRequest {
  readonly uses: readonly BucketUse[]
}

interface AtWork {
  readonly queues: readonly QueueAtWork[]
  /** Some of its lanes are parked. */
  readonly parked: boolean
}

/** The unpaused queues of a request, each with its limits: those declared by code, and the one set by an operator. */
function atWork(context: Context, { queues }: ClaimRequest): AtWork {
  const rows = context.db.all<[number, number, string | null, string | null]>(
    `SELECT id, paused, limits, limit_name FROM queues WHERE paused = 1 OR limit_name IS NOT NULL OR limits <> '[]'
     UNION ALL SELECT -1, 0, NULL, NULL WHERE EXISTS (SELECT 1 FROM lanes WHERE state = ${LANE.parked} AND queue > 0)`,
  )
  if (rows.length === 0) return { queues: queues.map((each) => ({ ...each, uses: [] })), parked: false }
  const held = new Map(rows.map(([id, ...row]) => [id, row] as const))
  const open = queues.flatMap((each) => {
    const [paused, limits, given] = held.get(queueId(context, each.queue)) ?? [0, null, null]
    if (paused === 1) return []
    return [{ ...each, uses: [...usesIn(limits), ...(given === null ? [] : [{ limit: given, key: '', weight: 1 }])] }]
  })
  return { queues: open, parked: held.has(-1) }
}

function shareOf(
  context: Context,
  decision: Decision,
  { queue, slots, uses }: QueueAtWork,
  nowUs: number,
  worker: number,
): QueueSlots {
  const id = queueId(context, queue)
  const buckets = uses.map((use) => ({
    bucket: decision.bucket(bucketId(context, nameFor(context, use.limit, use.key, worker), use.key, nowUs)),
    weight: use.weight,
  }))
  return new QueueSlots(
    id,
    ownQueue(id, worker),
    slots,
    buckets,
    context.unlimitedNext.get(id) ?? true,
    (of, skip, count) => decision.unlimitedLane(of, skip, count),
  )
}

function activate(context: Context, request: ClaimRequest, grants: readonly Grant[], decision: Decision): GrantedJob[] {
  if (grants.length === 0) return []
  const { nowUs } = decision
  const starts = grants.map((grant) => [grant.head.seq, permitsOf(grant)])
  const rows = context.db.all<Row>(ACTIVATE, request.worker, nowUs + request.leaseUs, nowUs, JSON.stringify(starts))
  if (rows.length !== grants.length)
    throw new RangeError(`${grants.length} jobs were granted, ${rows.length} could be started`)
  if (request.remote) context.db.run(OWN_TERMS, request.leaseUs, JSON.stringify(starts), request.claimId ?? null)
  const parents = new ParentResults(context)
  const bySeq = new Map(rows.map((row) => [row[0], row]))
  return grants.map((grant) => toAdmitted(context, grant, bySeq.get(grant.head.seq) as Row, decision, parents))
}

function toAdmitted(context: Context, grant: Grant, row: Row, decision: Decision, parents: ParentResults): GrantedJob {
  const [seq, id, task, of, priority, input, attempt, maxAttempts, pushedBack, createdUs, extra, ...rest] = row
  const [schedule, occurs, flow, node] = rest
  const place = { queue: queueName(context, of), availableUs: grant.head.sinceUs, ...occurrenceOf(schedule, occurs) }
  const job = { seq, id, task, priority, input, attempt, maxAttempts, pushedBack, createdUs, extra, ...place }
  return grantedJob({ ...job, ...parents.of(flow, node) }, decision.nowUs, grant, decision)
}

/** The due time of the next wait list that this decision did not touch. */
function nextLineUs(context: Context, nowUs: number, shares: readonly QueueSlots[], worker: number): number {
  if (shares.every((share) => share.slots === 0)) return NEVER_US
  const first = (whose: number): number =>
    context.db.get<[number | null]>(
      'SELECT min(wake_at) FROM buckets WHERE worker = ? AND wake_at > ?',
      whose,
      nowUs,
    )?.[0] ?? NEVER_US
  return Math.min(first(0), first(worker))
}
