import type { GrantedJob } from '../../jobs/job.ts'
import { shownQueue } from '../contract/budgets.ts'
import { Admission } from '../../policy/admission/admission.ts'
import { type Grant, QueueSlots } from '../../policy/admission/queue-slots.ts'
import { Elsewhere } from '../../policy/admission/elsewhere.ts'
import { earlier } from '../../policy/admission/ahead.ts'
import { NEVER_US } from '../../policy/admission/lane.ts'
import { isFull } from '../../policy/admission/refusal.ts'
import { knownTasks } from '../contract/known-tasks.ts'
import { usesIn } from '../shared/queue-limits.ts'
import type { Taker } from '../contract/remote-claims.ts'
import type { BucketUse, Claim, ClaimRequest, QueueRequest } from '../contract/store.ts'
import type { JobDetails } from '../contract/remote-jobs.ts'
import { grantedJob, permitsOf } from '../shared/claim-answer.ts'
import { occurrenceOf } from '../../jobs/series.ts'
import { advance } from './advance.ts'
import { bucketId, heldBuckets } from './buckets.ts'
import { type Context, queueId, queueName } from './context.ts'
import { Decision } from './decision.ts'
import { fire, nextFireUs } from './fire.ts'
import { endOverdue } from './shared-sql.ts'
import { arrive } from './lanes.ts'
import { nameFor, ownQueue } from './own.ts'
import { ParentResults } from './parent-results.ts'
import { firstDue, mayPromote, nextDueUs, promote } from './promote.ts'
import { readAhead } from './read-ahead.ts'
import { book, rejectHeads, rejectLate } from './reject.ts'
import { LANE, STATE } from '../shared/state.ts'
import { type ClosedOn, named, type RefusedRow, toName, WAITING_COUNTED } from '../shared/refused-head.ts'
import { dealt, firstTakerOf, startedColumns, startedDetails, type StartedFields } from '../shared/takers.ts'
import { recallOf, throttling } from '../shared/throttling.ts'
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

// A remote run has the lease and the timeout of its job, and the claim by which its worker can ask for it again.
const HERE = (started: string): string => `due = ${started} + ?2, ends = NULL, claim = NULL`
const AFAR = (started: string): string =>
  `due = ${started} + coalesce(lease, ?2), leased = coalesce(lease, ?2), ends = ${started} + timeout, claim = s.value ->> 3`
// An occurrence of a schedule has to start before the end of its series; a retry of it need not. Starts without permits
// at the claim's clock are written apart: a list without a join or a RETURNING clause costs half as much. OR FAIL spares
// the copies of pages by which SQLite could undo this statement alone: an error ends the whole transaction.
const active = (worker: string, permits: string, started: string, terms = HERE): string =>
  `UPDATE OR FAIL jobs SET state = ${STATE.active}, attempt = attempt + 1, worker = ${worker}, started = ${started}, ${terms(started)}, permits = ${permits}, booked = NULL,
    expires = CASE WHEN schedule IS NULL THEN expires END`
const ACTIVATE = `${active('?1', 'NULL', '?3')} WHERE seq IN (SELECT value FROM json_each(?4)) AND state = ${STATE.available}`
const EACH = ['coalesce(s.value ->> 2, ?1)', 's.value ->> 1', '?3 + (s.value ->> 4)'] as const
const OF_EACH = `FROM json_each(?4) s WHERE jobs.seq = s.value ->> 0 AND jobs.state = ${STATE.available}`
const ACTIVATE_EACH = `${active(...EACH)} ${OF_EACH}`
const STARTED = startedColumns('errors')
const ACTIVATE_AFAR = `${active(...EACH, AFAR)} ${OF_EACH} RETURNING ${STARTED.list}`
const STARTS = `SELECT seq, j.id, task, queue, coalesce(asked, priority), input, attempt, max_attempts, pushed_back, created, extra, schedule, occurs, flow, node
  FROM json_each(?) s CROSS JOIN jobs j ON j.seq = s.value`

const DEFAULT_EVENT_WINDOW_US = 60_000_000
const NEXT_WAKE = `SELECT (SELECT min(wake_at) FROM buckets WHERE worker = 0 AND wake_at > ?1), (SELECT min(wake_at) FROM buckets WHERE worker = ?2 AND wake_at > ?1)`

/** The wait lists that come due next, of which a claim wakes early for those that it did not read. */
const NEXT_WAKES = `SELECT * FROM (SELECT id, wake_at FROM buckets WHERE worker = 0 AND wake_at > ?1 ORDER BY wake_at LIMIT 8)
  UNION ALL SELECT * FROM (SELECT id, wake_at FROM buckets WHERE worker = ?2 AND wake_at > ?1 ORDER BY wake_at LIMIT 8)`

const AT_ONCE = 1000
const OPEN_LANES_AT_MOST = 4000
/** Lanes with only a fair key are always open, and a single start needs only the first of thousands. */
const FOR_ONE = 8

/** Takes the jobs that all their budgets admit now, or soon, in turn, and returns the time of the next claim. */
export function claim(context: Context, all: ClaimRequest): Claim {
  endOverdue(context)
  const request = all.takers && all.takers.length > 1 && workersDiffer(context) ? firstTakerOf(all) : all
  const instant = context.clock.read()
  const { nowUs } = instant
  const due = firstDue(context)
  const moved = mayPromote(due, instant) ? promote(context, instant, AT_ONCE) : 0
  const fired = fire(context, instant, AT_ONCE)
  const inFlows: number[] = []
  // One that was promoted or fired just now may be late already.
  const mayBeLate = moved > 0 || fired.news.length > 0 || (due[2] !== null && due[2] < nowUs)
  const late = mayBeLate ? rejectLate(context, instant, AT_ONCE, inFlows) : []
  const joining = takeViews(context, request, nowUs)
  const decision = new Decision(context, nowUs, request.worker, knownTasks(request.tasks), !request.remote)
  const work = atWork(context, request)
  const shares = work.queues.map((each) => shareOf(context, decision, each, nowUs, request.worker))
  const elsewhere = new Elsewhere(request.elsewhere, nowUs)
  decision.serve(shares, elsewhere)
  const admission = new Admission(nowUs, Math.max(nowUs, context.turns.given), shares, decision)
  const untilUs = nowUs + aheadUs(request, shares)
  const more = decide(admission, decision, shares, request.worker, { parked: work.parked, untilUs })
  const wakeUs = admission.retime()
  const { jobs, details } = activate(context, request, admission.grants, decision)
  const rejected = [...late, ...rejectHeads(context, admission.rejections, instant, inFlows)]
  book(context, admission.lateScan.reservations)
  const told = throttling(
    (queue) => shownQueue(queueName(context, queue)),
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
  const stays = !mayBeLate && rejected.length === 0 && flows.length === 0 && (due[2] === null || jobs.length === 0)
  const dueUs = nextDueUs(stays ? due : firstDue(context), context.clock.read())
  const again =
    flows.length > 0 ||
    joining ||
    more ||
    admission.lateScan.unfinished ||
    admission.unfinished ||
    isFull(admission.rejections) ||
    moved >= AT_ONCE ||
    late.length >= AT_ONCE
  const lineUs = again ? nowUs : nextLineUs(context, admission, decision, { worker: request.worker, shares, untilUs })
  const nextWakeUs = again ? nowUs : Math.min(wakeUs, fireUs, lineUs, dueUs, context.policies.current.nextEndUs)
  return {
    jobs,
    ...(request.takers && { details, served: request.takers.length }),
    nowUs,
    looks: admission.looks,
    rejected,
    schedules: fired.news,
    flows,
    nextWakeUs: nextWakeUs >= NEVER_US ? null : nextWakeUs,
    nextFireUs: Math.min(fireUs, dueUs) >= NEVER_US ? null : Math.min(fireUs, dueUs),
    ...told,
    ...((request.holds ?? request.aheadUs) &&
      recallOf(context.policies.current.generation, decision, work.paused, heldBuckets(context, request))),
    closed: named(told.closed, refusedRows(context, toName(told.closed)), waitingIn(context, told.closed)),
    ...(unknown.length > 0 && { unknown }),
    ...elsewhere.written(),
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

/** Whether a claim depends on its worker: some limit has the scope `worker`, or had it and left a view behind. */
function workersDiffer({ db, policies }: Context): boolean {
  return (
    policies.current.ofWorkers ||
    db.get(`SELECT 1 FROM lanes WHERE state = ${LANE.spread}`) !== undefined ||
    db.get('SELECT 1 FROM lanes WHERE worker IS NOT NULL') !== undefined
  )
}

/** Creates the views of a worker that has joined; true: more lanes are left. */
function takeViews(context: Context, { worker, queues }: ClaimRequest, nowUs: number): boolean {
  if (context.adopted.get(worker) === Infinity) return false
  const served = new Set(queues.map(({ queue }) => queueId(context, queue)))
  return adopt(context, worker, served, nowUs, (view, priority, seq) => arrive(context, view, priority, seq, nowUs))
}

/** How far ahead a claim looks: not at all where no queue has room for it. */
function aheadUs(request: ClaimRequest, shares: readonly QueueSlots[]): number {
  return shares.some(({ ahead }) => ahead > 0) ? (request.aheadUs ?? 0) : 0
}

/** Decides for the clock, and then ahead of it; true: there is room for more candidates. */
function decide(
  admission: Admission,
  decision: Decision,
  shares: readonly QueueSlots[],
  worker: number,
  reads: { readonly parked: boolean; readonly untilUs: number },
): boolean {
  const more = feed(admission, decision, shares, worker, reads)
  if (reads.untilUs > admission.nowUs && !more && !admission.unfinished) admission.lookAhead(reads.untilUs)
  return more
}

/** Feeds the decision in bounded batches until slots or candidates run out; true: there is room for more candidates. */
function feed(
  admission: Admission,
  decision: Decision,
  shares: readonly QueueSlots[],
  worker: number,
  { parked, untilUs }: { readonly parked: boolean; readonly untilUs: number },
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
      const buckets = decision.dueBuckets(whose, count, due.get(whose) ?? 0, untilUs)
      due.set(whose, (due.get(whose) ?? 0) + buckets.length)
      found += buckets.length
      for (const bucket of buckets) admission.addDue(bucket)
    }
    for (const share of shares) {
      if (share.slots === 0) continue
      // Most lanes start a job, so few more than the slots are enough; the next portion is larger.
      const portion = looked > 0 ? count : room() === 1 ? FOR_ONE : 16 + room()
      share.lastRead = null
      for (const queue of [share.queue, share.ownQueue]) {
        const lanes = decision.openLanes(queue, portion, skip.get(queue) ?? 0)
        if (lanes.length >= readAhead(portion)) share.readUntil(lanes.at(-1))
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
  // So many lanes may be for other workers. Those behind them wait no longer.
  for (const share of shares) share.lastRead = null
  admission.decide()
  // Wait lists that rest, since their backend is not known here, come again as they are, and so do lanes for others.
  return room() > 0 && admission.looks + admission.parked > admission.kept
}

/** A claiming queue, with its own limits. */
interface QueueAtWork extends QueueRequest {
  readonly uses: readonly BucketUse[]
}

interface AtWork {
  readonly queues: readonly QueueAtWork[]
  /** The paused queues of the request. */
  readonly paused: readonly string[]
  /** Some of its lanes are parked. */
  readonly parked: boolean
}

/** The unpaused queues of a request, each with its limits: those declared by code, and the one set by an operator. */
function atWork(context: Context, { queues }: ClaimRequest): AtWork {
  const rows = context.db.all<[number, number, string | null, string | null]>(
    `SELECT id, paused, limits, limit_name FROM queues WHERE paused = 1 OR limit_name IS NOT NULL OR limits <> '[]'
     UNION ALL SELECT -1, 0, NULL, NULL WHERE EXISTS (SELECT 1 FROM lanes WHERE state = ${LANE.parked} AND queue > 0)`,
  )
  if (rows.length === 0) return { queues: queues.map((each) => ({ ...each, uses: [] })), paused: [], parked: false }
  const held = new Map(rows.map(([id, ...row]) => [id, row] as const))
  const stopped: string[] = []
  const open = queues.flatMap((each) => {
    const [paused, limits, given] = held.get(queueId(context, each.queue)) ?? [0, null, null]
    if (paused === 1) stopped.push(each.queue)
    if (paused === 1) return []
    return [{ ...each, uses: [...usesIn(limits), ...(given === null ? [] : [{ limit: given, key: '', weight: 1 }])] }]
  })
  return { queues: open, paused: stopped, parked: held.has(-1) }
}

function shareOf(
  context: Context,
  decision: Decision,
  { queue, slots, uses, ahead = 0 }: QueueAtWork,
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
    Math.min(ahead, slots),
  )
}

interface Activated {
  readonly jobs: GrantedJob[]
  /** Of a claim with takers: the same jobs. */
  readonly details: JobDetails[]
}

function activate(context: Context, request: ClaimRequest, grants: readonly Grant[], decision: Decision): Activated {
  if (grants.length === 0) return { jobs: [], details: [] }
  const takers = dealt(request)
  const { nowUs } = decision
  const starts = grants.map((grant, n) => {
    const { worker, claimId = request.claimId } = takers[n] ?? {}
    return [grant.head.seq, permitsOf(grant), worker, claimId, grant.startUs - nowUs] as const
  })
  const begun = writeStarts(context, request, starts, nowUs)
  const rows = context.db.all<Row>(STARTS, JSON.stringify(starts.map(([seq]) => seq)))
  const ofFlows = rows.flatMap((row) => (row && row[13] !== null ? [row[0]] : []))
  const parents = new ParentResults(context, ofFlows)
  const jobs = grants.map((grant, n) => toAdmitted(context, grant, rows[n] as Row, decision, parents))
  if (takers.length === 0) return { jobs, details: [] }
  return {
    jobs,
    details: jobs.map((job, n) => startedDetails(job, begun.get(job.seq) as StartedFields, takers[n] as Taker)),
  }
}

type Start = readonly [
  seq: number,
  permits: readonly number[] | null,
  worker: number | undefined,
  claimId: string | undefined,
  /** How long after the claim's clock it starts, in µs. */
  aheadUs: number,
]

/** Makes the granted jobs active. Of a remote claim it returns what its runs have beside any other. */
function writeStarts(
  { db }: Context,
  { worker, leaseUs, remote }: ClaimRequest,
  starts: readonly Start[],
  nowUs: number,
): ReadonlyMap<number, StartedFields> {
  const here = remote ? [] : starts
  const isPlain = ([, permits, , , ahead]: Start): boolean => permits === null && ahead === 0
  const plain = here.filter(isPlain).map(([seq]) => seq)
  const others = plain.length === here.length ? [] : here.filter((start) => !isPlain(start))
  const args = (list: readonly unknown[]) => [worker, leaseUs, nowUs, JSON.stringify(list)] as const
  const write = (text: string, of: readonly unknown[]): number => (of.length === 0 ? 0 : db.run(text, ...args(of)))
  const begun = remote ? db.all(ACTIVATE_AFAR, ...args(starts)).map(STARTED.read) : []
  const started = begun.length + write(ACTIVATE, plain) + write(ACTIVATE_EACH, others)
  if (started !== starts.length) throw new RangeError(`${starts.length} jobs were granted, ${started} could be started`)
  return new Map(begun.map((each) => [each.seq, each]))
}

function toAdmitted(context: Context, grant: Grant, row: Row, decision: Decision, parents: ParentResults): GrantedJob {
  const [seq, id, task, of, priority, input, attempt, maxAttempts, pushedBack, createdUs, extra, ...rest] = row
  const [schedule, occurs, flow, node] = rest
  const place = { queue: queueName(context, of), availableUs: grant.head.sinceUs }
  const job = { seq, id, task, priority, input, attempt, maxAttempts, pushedBack, createdUs, extra, ...place }
  const more =
    schedule === null && flow === null ? null : { ...occurrenceOf(schedule, occurs), ...parents.of(flow, node) }
  return grantedJob(more ? { ...job, ...more } : job, grant.startUs, grant, decision)
}

/**
 * When to come for the next wait list. For one that this decision did not read, early enough to grant its starts ahead;
 * it read those that are due until `untilUs`.
 */
function nextLineUs(
  context: Context,
  admission: Admission,
  { buckets, nowUs }: Decision,
  { worker, shares, untilUs }: { readonly worker: number; readonly shares: readonly QueueSlots[]; untilUs: number },
): number {
  if (shares.every((share) => share.slots === 0)) return NEVER_US
  const aheadUs = untilUs - nowUs
  if (aheadUs === 0) {
    const [fleetUs, ownUs] = context.db.get<[number | null, number | null]>(NEXT_WAKE, nowUs, worker) ?? [null, null]
    return Math.min(fleetUs ?? NEVER_US, ownUs ?? NEVER_US)
  }
  const rows = context.db.all<[number, number]>(NEXT_WAKES, nowUs, worker)
  const times = rows.map(([id, wakeUs]) => {
    const bucket = buckets.get(id)
    return bucket && admission.waitLists.has(bucket) ? wakeUs : earlier(wakeUs, nowUs, aheadUs)
  })
  return Math.min(NEVER_US, ...times)
}
