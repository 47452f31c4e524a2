import type { PgValue, Statements } from '../../database/statements.ts'
import { NEVER_US } from '../../policy/admission/lane.ts'
import { knownTasks } from '../contract/known-tasks.ts'
import type { NewJob } from '../../jobs/job.ts'
import type { Claim, ClaimRequest } from '../contract/store.ts'
import { handedOut, takersOf, toAdmitted, type WrittenRow } from './claimed.ts'
import { nextDueUs, nextFireUs } from './claim-next.ts'
import type { Context } from './context.ts'
import { unlimitedLaneKey } from './lane-key.ts'
import type { ReadSet } from './read-set.ts'
import { STATE } from '../shared/state.ts'
import { kindsOf } from './unresolved.ts'
import { type PlaceOf, withResults } from './parent-results.ts'

/** The interval until the next try, when other transactions lock jobs that may start. */
export const HELD_AGAIN_US = 20_000

/** Stands for the number of a flow. The caller that stores jobs of flows knows their places, so it is not read. */
const OF_A_FLOW = 0

/** The types of the parameters of `claim_open`. */
const PARAMETERS = [
  'text[]',
  'text[]',
  'int[]',
  'bigint',
  'bigint',
  'bigint',
  'bigint',
  'text[]',
  'boolean',
  'text[]',
  'text',
  'uuid',
  'bigint[]',
  'uuid[]',
] as const

const CLAIM_OPEN = `SELECT * FROM ${claimOpenCall(1, 'NULL')}`

/** The call of `claim_open`, whose first parameter has this number. @param look what `look_open` has found */
function claimOpenCall(first: number, look: string): string {
  return `sluice.claim_open(${PARAMETERS.map((type, i) => `$${first + i}::${type}`).join(', ')}, ${look})`
}

/**
 * A statement that stores jobs and claims. It tries the locks first: what stores must not wait for a pause. Where no job
 * waits before them, jobs are stored as started. Otherwise the claim comes after they were stored, and takes what any
 * claim would take then.
 *
 * @param insert stores; takes the terms of a start, if jobs may start at once
 * @param first the number of the first parameter of the claim; the last tells whether the jobs themselves may start
 */
export function storeAndClaim(insert: (terms: string) => string, first: number): string {
  const [queues, lanes, slots, worker, lease, limits, nextEnd, unreadable, , , known, claim, workers] = PARAMETERS.map(
    (type, i) => `$${first + i}::${type}`,
  )
  const begins = `$${first + PARAMETERS.length}::boolean`
  const terms = `, p_worker => CASE WHEN l.begins THEN ${worker} END, p_lease_us => ${lease}, p_claim => ${claim}`
  return `WITH locked AS MATERIALIZED (
    SELECT bool_and(pg_try_advisory_xact_lock_shared(hashtext('sluice.held'), hashtext(q))) AS free FROM unnest(${queues}) q
  ), looked AS MATERIALIZED (
    SELECT CASE WHEN free THEN sluice.look_open(${queues}, ${lanes}, ${slots}, ${worker}, ${limits}, ${nextEnd}, ${unreadable}, ${known}, cardinality(${workers}) > 1) END AS look
    FROM locked
  ), stored AS MATERIALIZED (
    SELECT ${insert(terms)} AS done, l.look, l.begins
    FROM (SELECT look, ${begins} AND NOT (look ->> 'waiting')::boolean AS begins FROM looked) l
  )
  SELECT c.* FROM stored s, LATERAL ${claimOpenCall(first, 's.look')} c WHERE NOT s.begins AND s.look IS NOT NULL
  UNION ALL SELECT 0, NULL, NULL, NULL, 0, left(look::text, -1) || ', "begun": ' || array_to_json(done)::text || '}',
    0, 0, 0, 0, NULL, NULL, NULL, 0, 0, NULL, NULL FROM stored WHERE begins`
}

/** A start, or the first row. */
export type StartRow = [...WrittenRow]

/** The first row: the answer of `look_open`, and more of what was done. */
type Found = Pick<ReadSet, 'now' | 'wall' | 'fire' | 'next' | 'unresolved'> & {
  /** When jobs were stored that start at once, on both clocks, and their numbers; absent: `claim_open` took jobs. */
  readonly begun?: readonly [now: number, wall: number, ...seqs: number[]]
  readonly held?: boolean
  readonly unknown?: readonly (readonly [queue: string, task: string])[]
  /** The starts by their `seq`. */
  readonly order?: readonly number[]
}

/**
 * Claims when only jobs without limits wait: one statement, without a decision. Null: the claim needs a decision, and
 * nothing was done.
 */
export async function claimOpen(context: Context, db: Statements, request: ClaimRequest): Promise<Claim | null> {
  if (!mayClaimOpen(context, request)) return null
  return openClaim(context, db, request, await db.call<StartRow>(CLAIM_OPEN, ...openTerms(context, request)))
}

/** Whether `claim_open` may take what this claim wants. */
export function mayClaimOpen(context: Context, { holds, queues }: ClaimRequest): boolean {
  return (
    context.onlyOpen &&
    // Only a decision names the changes by which held starts go back.
    holds === undefined &&
    queues.some(({ slots }) => slots > 0) &&
    queues.every(({ queue }) => context.limits.usesOfQueue(queue).length === 0)
  )
}

/** The parameters of `claim_open`. */
export function openTerms(context: Context, request: ClaimRequest): PgValue[] {
  const { queues, worker, leaseUs } = request
  const { generation, nextEndUs } = context.limits
  const known = knownTasks(request.tasks)
  return [
    queues.map(({ queue }) => queue),
    queues.map(({ queue }) => unlimitedLaneKey(queue)),
    queues.map(({ slots }) => slots),
    worker,
    leaseUs,
    generation,
    nextEndUs >= NEVER_US ? null : nextEndUs,
    [...context.unreadable],
    request.remote === true,
    known && known.list,
    known && known.name,
    request.claimId ?? null,
    ...takersOf(request),
  ]
}

/**
 * The claim from the rows of `claim_open`. Null: it did nothing, since the claim needs a decision.
 *
 * @param stored the jobs that the same statement stored, which may have begun
 */
export async function openClaim(
  context: Context,
  db: Statements,
  request: ClaimRequest,
  [first, ...written]: readonly StartRow[],
  stored: readonly NewJob[] = [],
  placeOf?: PlaceOf,
): Promise<Claim | null> {
  context.onlyOpen = first !== undefined
  if (!first) return null
  const state = JSON.parse(first[5]) as Found
  const { begun, held, unknown = [], order = [] } = state
  const [, , , lineUs] = state.next
  const { nextEndUs } = context.limits
  const nowUs = begun?.[0] ?? state.now
  const rows = begun ? begunRows(stored, begun, placeOf ? OF_A_FLOW : null) : inOrder(written, order)
  context.clock.saw(nowUs)
  const ownUs = Math.min(nextFireUs(state), nextDueUs(state.next, state))
  const heldUs = held ? nowUs + HELD_AGAIN_US : NEVER_US
  const nextWakeUs = Math.min(ownUs, heldUs, lineUs ?? NEVER_US, nextEndUs)
  const started = rows.map((row) => toAdmitted(row, nowUs))
  const jobs = await withResults(context, db, rows, started, { now: nowUs, wall: begun?.[1] ?? state.wall }, placeOf)
  return {
    ...handedOut(request, rows, jobs),
    nowUs,
    looks: 0,
    rejected: [],
    schedules: [],
    nextWakeUs: nextWakeUs >= NEVER_US ? null : nextWakeUs,
    nextFireUs: ownUs >= NEVER_US ? null : ownUs,
    flows: [],
    unresolved: kindsOf(state.unresolved),
    closed: [],
    sustained: [],
    released: [],
    ...(unknown.length > 0 && { unknown: unknown.map(([queue, task]) => ({ queue, task })) }),
  }
}

/** Whether jobs may start in the statement that stores them, if no other waits: there is a slot for each. */
export function mayBegin({ queues, remote, takers, tasks }: ClaimRequest, jobs: readonly NewJob[]): boolean {
  if (remote || takers) return false
  const slots = new Map(queues.map((each) => [each.queue, each.slots]))
  for (const { queue, task } of jobs) {
    const free = slots.get(queue) ?? 0
    if (free === 0 || (tasks && !tasks.includes(task))) return false
    slots.set(queue, free - 1)
  }
  return true
}

/** The rows of jobs that began in the statement that stored them, in the order of their starts. */
function begunRows(
  jobs: readonly NewJob[],
  [nowUs, , ...seqs]: NonNullable<Found['begun']>,
  flow: number | null,
): WrittenRow[] {
  const rows = jobs.map((job, at): WrittenRow => {
    const { id, task, queue, priority, input, maxAttempts, extra } = job
    const seq = seqs[at] as number
    const first = [seq, id, task, queue, priority, input, 1, maxAttempts, 0, nowUs, extra] as const
    return [...first, null, null, STATE.active, nowUs, flow, null]
  })
  return rows.toSorted((a, b) => b[4] - a[4])
}

/** The server writes the starts of a claim in an order of its own. */
function inOrder(rows: readonly WrittenRow[], seqs: readonly number[]): WrittenRow[] {
  const places = new Map(seqs.map((seq, place) => [seq, place]))
  return rows.toSorted(([a], [b]) => (places.get(a) ?? 0) - (places.get(b) ?? 0))
}
