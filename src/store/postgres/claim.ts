import type { Statements } from '../../database/postgres.ts'
import { codeOf, isLost } from '../../database/postgres-error.ts'
import type { Admitted } from '../../jobs/job.ts'
import type { ScheduleNews } from '../../jobs/schedule.ts'
import { Admission } from '../../policy/admission.ts'
import { NEVER_US } from '../../policy/lane.ts'
import { type Grant, QueueShare } from '../../policy/queue-share.ts'
import { isFull } from '../../policy/refusal.ts'
import type { Claim, ClaimRequest, Rejected } from '../store.ts'
import { permitsOf, toAdmitted, type WrittenRow } from './claimed.ts'
import { nextDueUs, nextLineUs } from './claim-next.ts'
import { type Context, REACH_AT_LEAST } from './context.ts'
import { Decision } from './decision.ts'
import { fire, nextFireUs } from './fire.ts'
import { openLineKey } from './lane-key.ts'
import { limitsAt } from './limits.ts'
import { type Look, type NextRow, NotRead, type Portion } from './look.ts'
import { endOverdue } from './override.ts'
import { rejectedOf, rejectionsOf, skipRejected } from './reject.ts'
import { rejectLate } from './reject-late.ts'
import { throttling } from './throttling.ts'

const DEFAULT_EVENT_WINDOW_US = 60_000_000
const AT_ONCE = 1000
/** A decision older than this is not written: what it let start would start later than it was counted. Doubled at every try. */
const LATE_US = 50_000
const LATE_AT_MOST_US = 1_000_000
/** A claim that stalls between its two round trips keeps others waiting for so long at most; its connection dies. */
const STALL_MS = 1500
const TRIES = 12
/** When jobs that may start are held by others' transactions, it is tried again so soon. */
const HELD_AGAIN_US = 20_000

const LOOK = `BEGIN; SET LOCAL synchronous_commit = off; SELECT sluice.promote(${AT_ONCE}), sluice.take_arrivals(ARRAY(SELECT json_array_elements_text($1::json)), $2::bigint); COMMIT;
  BEGIN; SET LOCAL idle_in_transaction_session_timeout = ${STALL_MS}; SELECT sluice.claim_look($3::json)`
const WRITE = `SELECT * FROM sluice.claim_write($1::bigint, $2::bigint, $3::bigint, $4::bigint, $5::json, $6::json, $7::json, $8::json, $9::json);
  SELECT sluice.claim_next($1::bigint); COMMIT`

/** What a claim came to so far, while other things had to be done first. */
interface Progress {
  readonly rejected: Rejected[]
  readonly news: ScheduleNews[]
  /** What was done first already: what is left of it is left to the next claim. */
  readonly done: Set<'ends' | 'fires' | 'late'>
  /** A transaction has to be ended before the next look: it is, in the same round trip. */
  open: boolean
  /** Something of more than one portion was left. */
  more: boolean
  portion: Portion
}

/** Takes the jobs that all their budgets admit at this instant, in turn, and says when to look again. */
export async function claim(context: Context, ask: () => ClaimRequest): Promise<Claim> {
  return context.db.session(async (db) => {
    // Runs that end together end in one turn of the event loop: the claim that fills their slots asks for all of them.
    await new Promise((resolve) => setImmediate(resolve))
    const request = ask()
    const room = request.queues.reduce((sum, { slots }) => sum + slots, 0)
    const portion = portionFor(room, context.reach)
    const progress: Progress = { rejected: [], news: [], done: new Set(), open: false, more: false, portion }
    for (let tries = 1; ; tries++) {
      const done = await attempt(context, db, request, progress, tries)
      if (done !== null) return done
      if (tries >= TRIES * 4) throw new RangeError(`A claim was tried ${tries} times and never could be written`)
    }
  })
}

function portionFor(room: number, { line, heads }: Context['reach']): Portion {
  return {
    open: 16 + 2 * room,
    due: room === 0 ? 0 : 16 + 2 * room,
    line,
    heads,
    slots: room,
    depth: 2,
    deepHeads: heads,
    lanes: [],
    buckets: [],
    skip: [],
  }
}

/** One try: null when something was in its way, which is done or noted, and it is to be tried again. */
async function attempt(
  context: Context,
  db: Statements,
  request: ClaimRequest,
  progress: Progress,
  tries: number,
): Promise<Claim | null> {
  try {
    const look = await lookAt(context, db, request, progress)
    progress.open = true
    if (!look) return null
    context.clock.saw(look.now)
    const limits = await limitsAt(context, db, look.generation)
    const work = dueWork(look, limits.nextEndUs, progress)
    if (work.length > 0) {
      await db.script('ROLLBACK')
      progress.open = false
      await doFirst(context, db, work, progress)
      return null
    }
    const decision = new Decision(look, progress.portion, limits, context.queues)
    const decided = decide(context, decision, request, look, progress.portion)
    const lateUs = Math.min(LATE_US * 2 ** Math.min(tries - 1, 10), LATE_AT_MOST_US)
    return await write(context, db, request, decided, look, progress, lateUs)
  } catch (error) {
    const code = codeOf(error)
    if (error instanceof NotRead) progress.portion = error.wider(progress.portion)
    else if (code === 'SL002') {
      const held = JSON.parse((error as Error).message) as number[]
      progress.portion = { ...progress.portion, skip: [...progress.portion.skip, ...held] }
    } else if (tries >= TRIES || (code !== 'SL001' && code !== '40P01' && code !== '40001')) {
      if (!isLost(error)) await db.script('ROLLBACK')
      throw error
    }
    progress.open = true
    return null
  }
}

async function lookAt(
  context: Context,
  db: Statements,
  request: ClaimRequest,
  { portion, open }: Progress,
): Promise<Look | null> {
  const queues = request.queues.map(({ queue }) => queue)
  const asked = {
    ...portion,
    queues,
    worker: request.worker,
    unreadable: [...context.unreadable],
    uses: request.queues.flatMap(({ uses }) => uses.map(({ limit, key }) => [limit, key])),
    line_of: request.queues.map(({ queue, slots }) => [queue, openLineKey(queue), slots]),
  }
  const script = open ? `ROLLBACK; ${LOOK}` : LOOK
  const results = await db.script(script, JSON.stringify(queues), String(context.turns.given), JSON.stringify(asked))
  // Newcomers were given turns.
  context.turns.given = Math.max(context.turns.given, turnOf(results))
  const text = cellOf(results.at(-1))
  return text === null ? null : (JSON.parse(text) as Look)
}

/** The last turn that was given to lanes that arrived. */
function turnOf(results: readonly (readonly unknown[])[][]): number {
  for (const rows of results) if (rows[0]?.length === 2) return Number(rows[0][1])
  return 0
}

/** The one value that a statement answers. */
function cellOf(rows: (readonly unknown[])[] | undefined): string | null {
  return (rows?.[0]?.[0] ?? null) as string | null
}

/** Overrides that are over, occurrences that are due, jobs that are too late: each is written first, in a transaction of its own. */
function dueWork(look: Look, nextEndUs: number, { done }: Progress): ('ends' | 'fires' | 'late')[] {
  const late = look.next[2]
  const due = {
    ends: nextEndUs <= look.now,
    fires: nextFireUs(look) <= look.now,
    late: late !== null && late < look.now,
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
  const { rejected, looked } = await rejectLate(context, db, AT_ONCE)
  progress.rejected.push(...rejected)
  if (looked >= AT_ONCE) progress.more = true
}

interface Decided {
  readonly admission: Admission
  readonly decision: Decision
  readonly shares: readonly QueueShare[]
  readonly wakeUs: number
  readonly more: boolean
}

function decide(context: Context, decision: Decision, request: ClaimRequest, look: Look, portion: Portion): Decided {
  let at = 0
  const shares = request.queues.map(({ queue, slots, uses }) => {
    const own = uses.map((use) => ({ bucket: decision.bucket(look.own[at++] as number), weight: use.weight }))
    const next = context.openLineNext.get(queue) ?? true
    // No lane stands in a queue of one worker's own here.
    const number = context.queues.of(queue)
    return new QueueShare(number, -number, slots, own, next, (of, skip, count) => decision.openLine(of, skip, count))
  })
  decision.serve(shares)
  // Whoever is served goes behind all that wait, also where another process gave them their turns.
  const turn = Math.max(look.now, context.turns.given, ...(look.lanes ?? []).map((row) => row[7]))
  const admission = new Admission(look.now, turn, shares, decision)
  const room = (): boolean => shares.some((share) => share.slots > 0)
  if (!room()) return { admission, decision, shares, wakeUs: admission.retime(), more: false }
  for (const bucket of decision.dueBuckets()) admission.addDue(bucket)
  for (const lane of decision.openLanes()) admission.addLane(lane)
  admission.decide()
  // As much was there as was asked for: what is behind it has its turn in the next claim, which is made at once.
  const full = look.due.length >= portion.due || look.open.length >= portion.open
  return { admission, decision, shares, wakeUs: admission.retime(), more: full && room() }
}

async function write(
  context: Context,
  db: Statements,
  request: ClaimRequest,
  decided: Decided,
  look: Look,
  progress: Progress,
  lateUs: number,
): Promise<Claim> {
  const { admission, decision, shares } = decided
  const { grants, rejections } = admission
  const { bookings, unfinished } = admission.sifter
  const instant = { nowUs: look.now, wallUs: look.wall }
  const nameOf = (queue: number): string => context.queues.name(queue)
  const told = throttling(nameOf, decision, admission, request.eventWindowUs ?? DEFAULT_EVENT_WINDOW_US)
  const lanes = decision.changedLanes()
  const buckets = decision.changedBuckets()
  let rows: WrittenRow[] = []
  let { next } = look
  if (grants.length + rejections.length + bookings.length + lanes.length + buckets.length > 0) {
    const results = await db.script(
      WRITE,
      String(look.now),
      String(lateUs),
      String(request.worker),
      String(request.leaseUs),
      JSON.stringify(grants.map((grant) => [grant.head.seq, permitsOf(grant)])),
      JSON.stringify(lanes),
      JSON.stringify(buckets),
      JSON.stringify(rejectionsOf(context, rejections, instant)),
      JSON.stringify(bookings.map(({ seq, startUs }) => [seq, startUs])),
    )
    rows = results[0] as unknown as WrittenRow[]
    next = JSON.parse(cellOf(results[1]) ?? '') as NextRow
  } else await db.script('COMMIT')
  context.turns.given = admission.turn
  const { reach } = context
  reach.line = Math.max(REACH_AT_LEAST.line, decision.deepest + 2, Math.ceil(reach.line * 0.9))
  reach.heads = Math.max(REACH_AT_LEAST.heads, decision.mostHeads + 1, Math.ceil(reach.heads * 0.9))
  for (const share of shares) context.openLineNext.set(context.queues.name(share.queue), share.openLineNext)
  const rejected = rejectedOf(rejections, rows)
  await skipRejected(context, db, rejected)
  progress.rejected.push(...rejected)
  const fireUs = nextFireUs(await looked(context, db, look, rejected))
  const again = decided.more || progress.more || unfinished || isFull(rejections)
  const held = progress.portion.skip.length > 0 ? look.now + HELD_AGAIN_US : NEVER_US
  const nextWakeUs = again
    ? look.now
    : Math.min(decided.wakeUs, fireUs, held, nextLineUs(next, shares), nextDueUs(next, look), context.limits.nextEndUs)
  return {
    jobs: admitted(grants, rows, decision),
    nowUs: look.now,
    looks: admission.looks,
    rejected: progress.rejected,
    schedules: progress.news,
    nextWakeUs: nextWakeUs >= NEVER_US ? null : nextWakeUs,
    nextFireUs: fireUs === NEVER_US ? null : fireUs,
    flows: [],
    ...told,
  }
}

/** What was looked at, with the next occurrences as they are once some were skipped. */
async function looked(
  { unreadable }: Context,
  db: Statements,
  look: Look,
  rejected: readonly Rejected[],
): Promise<Look> {
  if (!rejected.some((job) => job.occurrence)) return look
  const [text] = (await db.get<[string]>('SELECT sluice.claim_fire($1::text[])::text', [...unreadable])) as [string]
  return { ...look, fire: JSON.parse(text) as Look['fire'] }
}

function admitted(grants: readonly Grant[], rows: readonly WrittenRow[], decision: Decision): Admitted[] {
  const bySeq = new Map(rows.map((row) => [row[0], row]))
  return grants.map((grant) => {
    const row = bySeq.get(grant.head.seq)
    if (!row) throw new RangeError(`Job ${grant.head.seq} was granted, but it was not started`)
    return toAdmitted(grant, row, decision)
  })
}
