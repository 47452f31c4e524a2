import type { Statements } from '../../database/statements.ts'
import { codeOf, isLost } from '../../database/postgres-error.ts'
import type { FlowNews } from '../../jobs/flow.ts'
import type { ScheduleNews } from '../../jobs/schedule.ts'
import { Admission } from '../../policy/admission/admission.ts'
import { Elsewhere, unserved } from '../../policy/admission/elsewhere.ts'
import { earlier } from '../../policy/admission/ahead.ts'
import { type Lane, NEVER_US } from '../../policy/admission/lane.ts'
import type { Grant, QueueSlots } from '../../policy/admission/queue-slots.ts'
import { isFull } from '../../policy/admission/refusal.ts'
import { rank } from '../../policy/admission/turn-order.ts'
import { shownQueue } from '../contract/budgets.ts'
import type { Claim, ClaimRequest, Rejected } from '../contract/store.ts'
import type { Closed } from '../contract/waits.ts'
import { newsOf, retentionOf } from './advance.ts'
import { permitsOf } from '../shared/claim-answer.ts'
import { admitted, handedOut, takersOf, type WrittenRow } from './claimed.ts'
import { nextDueUs, nextFireUs, nextLineUs } from './claim-next.ts'
import { aheadOf, AT_ONCE, cellOf, readForClaim, ownUses } from './claim-read.ts'
import { claimOpen, HELD_AGAIN_US } from './claim-open.ts'
import type { Context } from './context.ts'
import { Decision } from './decision.ts'
import { fire } from './fire.ts'
import { limitsAt } from './limit-timelines.ts'
import { type LockedStripes, type ReadSet, type NextRow, ReadMiss, type ReadPlan } from './read-set.ts'
import { endOverdue } from './shared-sql.ts'
import { sharedQueue } from './own.ts'
import { withResults } from './parent-results.ts'
import { FEW_PARKED, planFor, rememberReads } from './read-ahead.ts'
import { looked, rejectedOf, rejectionsOf, skipRejected } from './reject.ts'
import { recordQueues } from './queues.ts'
import { rejectLate } from './reject-late.ts'
import { pausedOf, sharesOf } from './shares.ts'
import { StripeRound } from './stripe-round.ts'
import { knownTasks, type UnknownKind } from '../contract/known-tasks.ts'
import { type ClosedOn, named, type RefusedRow, toName, WAITING_COUNTED } from '../shared/refused-head.ts'
import { LANE, STATE } from '../shared/state.ts'
import { GRANT, inOrder, RESERVATION } from './sql/fields.ts'
import { firstTakerOf } from '../shared/takers.ts'
import { recallOf, throttling } from '../shared/throttling.ts'
import { kindsOf } from './unresolved.ts'

const DEFAULT_EVENT_WINDOW_US = 60_000_000
/**
 * An older decision is not written, since its starts would be later than counted. Each try doubles the bound, and the
 * next claims begin with most of it: where one takes so long, they all do.
 */
const LATE_US = 50_000
const LATE_AT_MOST_US = 1_000_000
const LATE_KEPT = 0.9
const TRIES = 12
/** Lanes for other workers before which a claim does not look on. */
const OPEN_LANES_AT_MOST = 4000

const WRITTEN = `SELECT * FROM sluice.claim_write($1::bigint, $2::bigint, $3::bigint, $4::bigint, $5::json, $6::json, '[]', $7::json, $8::json, $9::boolean, nullif($10, '')::uuid, nullif($30, '')::bigint[], nullif($31, '')::uuid[]);
  SELECT sluice.write_plain_lanes($13, $14, $15, $16, $17, $18, $1, $19, $20, $21, $22); SELECT sluice.write_buckets($23, $24, $25, $26, $27, $28, $29)`
const NEXT = 'SELECT sluice.claim_next($1::bigint, $3::bigint); COMMIT'
/** Lanes that a bucket's closing has moved to another group of their wait list. */
const REGROUP =
  'UPDATE sluice.lanes l SET over = g.over FROM unnest($1::bigint[], $2::text[]) g(id, over) WHERE l.id = ANY ($1) AND l.id = g.id'
const WRITE = `${WRITTEN}; ${NEXT}`
/**
 * Rejected jobs advance their flows. The statement locks these first, since a decision must not age while it waits for
 * them.
 */
const WRITE_REJECTING = `SELECT sluice.lock_flows($11::bigint[]); ${WRITTEN}; SELECT sluice.advance($11::bigint[], $12::bigint[]); ${NEXT}`

/** Jobs in the wait lists of closed buckets. */
const WAITING = `SELECT b, (SELECT count(*) FROM (SELECT 1 FROM sluice.lanes l JOIN sluice.jobs j ON j.lane = coalesce(l.base, l.key) AND j.state = ${STATE.available}
  WHERE l.bucket = b AND l.state = ${LANE.waiting} LIMIT ${WAITING_COUNTED}) waiting) FROM unnest($1::bigint[]) b`
const REFUSED = `SELECT j.seq, j.task, f.id, j.node, f.total FROM sluice.jobs j LEFT JOIN sluice.flows f ON f.seq = j.flow
  WHERE j.seq = ANY ($1::bigint[])`

/** The state of a claim while it does other work first. */
interface Progress {
  readonly rejected: Rejected[]
  readonly news: ScheduleNews[]
  readonly flows: FlowNews[]
  /** Work done in this claim: the next claim does the rest. */
  readonly done: Set<'ends' | 'fires' | 'late'>
  /** A transaction is open; the next read ends it in the same round trip. */
  open: boolean
  /** Kinds of jobs that no worker lists, seen by this claim. */
  readonly unknown: Map<string, UnknownKind>
  /** Work for more than one transaction is left. */
  more: boolean
  plan: ReadPlan
  readonly round: StripeRound
  /** The stripes of the present pass. */
  stripes: LockedStripes | null
}

/** Takes the jobs that all their budgets admit at this instant, in turn, and returns the time of the next claim. */
export async function claim(context: Context, ask: () => ClaimRequest): Promise<Claim> {
  return context.db.session(async (db) => {
    // Runs that end together end in one turn of the event loop, so one claim can fill all their slots.
    await new Promise((resolve) => setImmediate(resolve))
    const request = ask()
    for (const { queue } of request.queues) context.queues.met(queue)
    await recordQueues(context, db)
    const open = await claimOpen(context, db, request)
    if (open) return open
    const room = request.queues.reduce((sum, { slots }) => sum + slots, 0)
    const plan = planFor(room, context)
    const progress: Progress = {
      rejected: [],
      news: [],
      flows: [],
      done: new Set(),
      open: false,
      unknown: new Map(),
      more: false,
      plan,
      round: new StripeRound(context),
      stripes: null,
    }
    for (let tries = 1; ; tries++) {
      const done = await attempt(context, db, request, progress, tries)
      const answer = done && progress.round.passed(done, progress.stripes)
      if (answer) return answer
      if (done) {
        tries = 0
        progress.plan = plan
        progress.open = false
      }
      if (tries >= TRIES * 4) throw new RangeError(`A claim could not be written in ${tries} tries`)
    }
  })
}

/** One try. Null: something blocked it, which is done or recorded, and the claim tries again. */
async function attempt(
  context: Context,
  db: Statements,
  all: ClaimRequest,
  progress: Progress,
  tries: number,
): Promise<Claim | null> {
  let request = all
  const lateUs = Math.round(Math.min(Math.max(LATE_US, context.lateUs) * 2 ** Math.min(tries - 1, 10), LATE_AT_MOST_US))
  try {
    const asked = (): string =>
      JSON.stringify([ownUses(context, request), unserved(all.elsewhere, context.limits.elsewhere)])
    const before = asked()
    const { read, unknown } = await readForClaim(context, db, request, progress.plan, progress.round, progress.open)
    progress.open = true
    for (const kind of unknown) progress.unknown.set(`${kind.queue} ${kind.task}`, kind)
    if (!read) return null
    progress.stripes = read.stripes
    context.clock.saw(read.now)
    const limits = await limitsAt(context, db, read.generation)
    // Workers with budgets or lanes of their own claim one by one.
    if (limits.ofWorkers || read.apart) request = firstTakerOf(all)
    // The queues' buckets and the wait lists that it leaves depend on the current limits.
    if (asked() !== before) return null
    const work = dueWork(read, limits.nextEndUs, progress)
    if (work.length > 0) {
      await db.script('ROLLBACK')
      progress.open = false
      await doFirst(context, db, work, progress)
      return null
    }
    const decision = new Decision(
      read,
      progress.plan,
      limits,
      context.queues,
      knownTasks(request.tasks),
      request.remote ? null : context.yields,
    )
    const decided = decide(context, decision, request, read, progress.plan)
    await regroup(db, decision)
    const written = await write(context, db, request, decided, read, progress, lateUs)
    context.lateUs *= LATE_KEPT
    return written
  } catch (error) {
    const code = codeOf(error)
    if (code === 'SL001') context.lateUs = 2 * lateUs
    if (error instanceof ReadMiss) progress.plan = error.widened(progress.plan)
    else if (code === 'SL002') {
      const held = JSON.parse((error as Error).message) as number[]
      progress.plan = { ...progress.plan, skip: [...progress.plan.skip, ...held] }
    } else if (tries >= TRIES || (code !== 'SL001' && code !== '40P01' && code !== '40001')) {
      if (!isLost(error)) await db.script('ROLLBACK')
      throw error
    }
    progress.open = true
    return null
  }
}

/** Overrides that are over, due occurrences and late jobs: each kind is written first, in a transaction of its own. */
function dueWork(read: ReadSet, nextEndUs: number, { done }: Progress): ('ends' | 'fires' | 'late')[] {
  const late = read.next[2]
  const due = {
    ends: nextEndUs <= read.now,
    fires: nextFireUs(read) <= read.now,
    late: late !== null && late < read.now,
  }
  return (['ends', 'fires', 'late'] as const).filter((each) => due[each] && !done.has(each))
}

async function doFirst(
  context: Context,
  db: Statements,
  work: readonly ('ends' | 'fires' | 'late')[],
  progress: Progress,
): Promise<void> {
  for (const each of work) progress.done.add(each)
  if (work.includes('ends')) await endOverdue(context, db)
  if (work.includes('fires')) progress.news.push(...(await fire(context, db, AT_ONCE)))
  if (!work.includes('late')) return
  const { rejected, flows, looked } = await rejectLate(context, db, AT_ONCE)
  progress.rejected.push(...rejected)
  progress.flows.push(...flows)
  if (looked >= AT_ONCE) progress.more = true
}

async function regroup(db: Statements, decision: Decision): Promise<void> {
  const { ids, over } = decision.regrouped()
  if (ids.length > 0) await db.run(REGROUP, ids, over)
}

interface Decided {
  readonly admission: Admission
  readonly decision: Decision
  readonly shares: readonly QueueSlots[]
  readonly wakeUs: number
  readonly more: boolean
}

function decide(context: Context, decision: Decision, request: ClaimRequest, read: ReadSet, plan: ReadPlan): Decided {
  const shares = sharesOf(context, decision, request, read)
  decision.serve(shares, new Elsewhere(request.elsewhere, read.now))
  // A served lane moves behind all that wait, also behind lanes whose turns other processes assigned.
  const turn = Math.max(read.now, context.turns.given, ...(read.lanes ?? []).map((row) => row[7]))
  const admission = new Admission(read.now, turn, shares, decision)
  const room = (): boolean => shares.some((share) => share.slots > 0)
  if (!room()) return { admission, decision, shares, wakeUs: admission.retime(), more: false }
  for (const bucket of decision.dueBuckets()) admission.addDue(bucket)
  const lanes = decision.openLanes()
  for (const lane of lanes) admission.addLane(lane)
  const lanesOf = (queue: number): Lane[] => lanes.filter((lane) => lane.queue === queue)
  for (const share of shares)
    for (const open of [share.queue, share.ownQueue].map(lanesOf))
      if (open.length >= plan.open) share.readUntil(open.toSorted(rank).at(-1))
  admission.decide()
  // The next claim would read the same lanes again, so those behind them wait no longer.
  const isStuck = ({ queue, ownQueue }: QueueSlots): boolean =>
    !admission.grants.some((grant) => grant.queue === queue) &&
    [queue, ownQueue].flatMap(lanesOf).every(({ state }) => state === 'open')
  const stuck = shares.filter((share) => share.lastRead && isStuck(share))
  for (const share of stuck) share.lastRead = null
  if (stuck.length > 0) admission.decide()
  // None of so many can start here now: they wait for other workers, or come due later. Others may stand behind them.
  const done = admission.looks + admission.parked + admission.grants.length + admission.rejections.length
  if (read.due.length >= plan.due && done === 0 && !read.arrived)
    throw new ReadMiss('the wait lists that come due after others', (given) => ({ ...given, due: 4 * given.due }))
  const onlyKept = admission.kept > 0 && done === admission.kept
  if (read.open.length >= plan.open && onlyKept && plan.open < OPEN_LANES_AT_MOST)
    throw new ReadMiss('the lanes behind those of other workers', (given) => ({ ...given, open: 4 * given.open }))
  const untilUs = Math.min(read.now + aheadOf(request), read.dueUntil)
  // The read set is full. The lanes behind it are for the next claim, which follows at once.
  const full = read.due.length >= plan.due || (read.open.length >= plan.open && !onlyKept) || read.arrived
  if (untilUs > read.now && !full && !admission.unfinished) admission.lookAhead(untilUs)
  return { admission, decision, shares, wakeUs: admission.retime(), more: full && (room() || admission.unfinished) }
}

async function write(
  context: Context,
  db: Statements,
  request: ClaimRequest,
  decided: Decided,
  read: ReadSet,
  progress: Progress,
  lateUs: number,
): Promise<Claim> {
  const { admission, decision, shares } = decided
  const { grants, rejections } = admission
  const { reservations, unfinished } = admission.lateScan
  const nameOf = (queue: number): string => shownQueue(sharedQueue(context.queues.name(queue)))
  const told = throttling(nameOf, decision, admission, request.eventWindowUs ?? DEFAULT_EVENT_WINDOW_US)
  const changes = decision.changes()
  let rows: WrittenRow[] = []
  let { next } = read
  if (grants.length + rejections.length + reservations.length + changes.count > 0) {
    const rejects = rejections.length > 0
    const results = await db.script(
      rejects ? WRITE_REJECTING : WRITE,
      String(read.now),
      String(lateUs),
      String(request.worker),
      String(request.leaseUs),
      JSON.stringify(grants.map(asWritten)),
      changes.lanes,
      JSON.stringify(rejectionsOf(context, rejections, { nowUs: read.now, wallUs: read.wall })),
      JSON.stringify(reservations.map(({ seq, startUs }) => inOrder(RESERVATION, { seq, start: startUs }))),
      String(request.remote === true),
      request.claimId ?? '',
      `{${rejections.map(({ head }) => head.seq).join()}}`,
      `{${retentionOf(context).join()}}`,
      ...changes.columns,
      ...takersOf(request).map((each) => (each ? `{${each.join()}}` : '')),
    )
    rows = results[rejects ? 1 : 0] as unknown as WrittenRow[]
    next = JSON.parse(cellOf(results.at(-2)) ?? '') as NextRow
    if (rejects) progress.flows.push(...newsOf(cellOf(results[4])).values())
  } else await db.script('COMMIT')
  remember(context, decided, read, progress.plan)
  for (const kind of decision.unlistedTasks.unknown()) progress.unknown.set(`${kind.queue} ${kind.task}`, kind)
  const rejected = rejectedOf(rejections, rows)
  await skipRejected(context, db, rejected)
  progress.rejected.push(...rejected)
  const fireUs = nextFireUs(await looked(context, db, read, rejected))
  const left = decided.more || progress.more || unfinished || isFull(rejections)
  const again = left || admission.unfinished || progress.flows.length > 0
  const held = progress.plan.skip.length > 0 ? read.now + HELD_AGAIN_US : NEVER_US
  const lineUs = comeUs(nextLineUs(next, read, shares), decided, read.now, request)
  const ownUs = Math.min(fireUs, nextDueUs(next, read))
  const nextWakeUs = again ? read.now : Math.min(decided.wakeUs, ownUs, held, lineUs, context.limits.nextEndUs)
  return {
    ...handedOut(request, rows, await withResults(context, db, rows, admitted(grants, rows, decision), read)),
    nowUs: read.now,
    looks: admission.looks,
    rejected: progress.rejected,
    schedules: progress.news,
    nextWakeUs: nextWakeUs >= NEVER_US ? null : nextWakeUs,
    nextFireUs: ownUs >= NEVER_US ? null : ownUs,
    flows: progress.flows,
    unresolved: kindsOf(read.unresolved),
    ...told,
    ...((request.holds ?? request.aheadUs) && recallOf(read.generation, decision, pausedOf(read), read.holds ?? [])),
    closed: await namedHeads(db, told.closed),
    ...(progress.unknown.size > 0 && { unknown: [...progress.unknown.values()] }),
    ...decision.elsewhere.written(),
  }
}

/** When to come for the next wait list. The decision has times of its own for those that it read. */
function comeUs(lineUs: number, { wakeUs }: Decided, nowUs: number, request: ClaimRequest): number {
  return lineUs === wakeUs ? lineUs : earlier(lineUs, nowUs, aheadOf(request))
}

/** Read after the claim is written: no job changes its task or its flow. */
async function namedHeads(db: Statements, closed: readonly ClosedOn[]): Promise<readonly Closed[]> {
  if (closed.length === 0) return []
  const seqs = toName(closed)
  const rows = seqs.length === 0 ? [] : await db.all<RefusedRow>(REFUSED, seqs)
  const waiting = await db.all<[number, number]>(
    WAITING,
    closed.map(({ bucket }) => bucket),
  )
  return named(closed, rows, waiting)
}

/** Keeps hints for this process's next claim. */
function remember(context: Context, decided: Decided, read: ReadSet, plan: ReadPlan): void {
  const { admission, decision, shares, more } = decided
  const started = admission.grants.length > 0
  context.turns.given = admission.turn
  context.expectsUnlisted = decision.unlistedTasks.any
  context.parked = started ? 0 : admission.parked
  context.unlisted = admission.parked > FEW_PARKED && decision.unlistedTasks.unknown().length > 0
  const isOpen = read.due.length === 0 && read.lanes === null && read.held === null
  context.onlyOpen = isOpen && (context.onlyOpen || started)
  const missed = plan.lanes.length > 0
  rememberReads(context.readAhead, read, plan, decision, { starts: admission.grants.length, more, missed })
  for (const share of shares) {
    const queue = context.queues.name(share.queue)
    // The claim of a stripe without the unlimited lane says nothing about its turn.
    if (read.stripes === null || (read.line ?? []).some(([of]) => of === queue))
      context.unlimitedNext.set(queue, share.unlimitedNext)
  }
}

function asWritten(grant: Grant): unknown[] {
  const permits = permitsOf(grant)
  return inOrder(GRANT, { seq: grant.head.seq, permits: permits && `{${permits.join()}}`, start: grant.startUs })
}
