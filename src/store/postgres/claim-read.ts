import type { Statements } from '../../database/statements.ts'
import { WATCHED_AT_MOST } from '../../policy/admission/drop-watch.ts'
import { unserved } from '../../policy/admission/elsewhere.ts'
import { knownTasks, type UnknownKind } from '../contract/known-tasks.ts'
import type { ClaimRequest } from '../contract/store.ts'
import type { Timelines } from '../shared/timelines.ts'
import type { Context } from './context.ts'
import { unlimitedLaneKey } from './lane-key.ts'
import { type HeadColumns, headRows, type ReadPlan, type ReadSet } from './read-set.ts'
import { ownerFor } from './own.ts'
import { inOrder, LIST_READ, UNLIMITED, USE } from './sql/fields.ts'
import type { StripeRound } from './stripe-round.ts'

/** The most due jobs or occurrences that one transaction moves. */
export const AT_ONCE = 1000
/**
 * A claim that stalls between its two round trips blocks others for at most this time; the server then ends its
 * connection.
 */
const STALL_MS = 1500
/** A longer read says nothing about the next one. */
const TOOK_AT_MOST_US = 500_000

/** The most open lanes that a claim checks for listed jobs at once, after the last claim saw many without any. */
const PARKED_AT_ONCE = 2000

const QUEUES = 'ARRAY(SELECT json_array_elements_text($1::json))'
const LISTED = `CASE WHEN $5 <> '' THEN ARRAY(SELECT json_array_elements_text($4::json)) END, nullif($5, ''), $6::bigint`
const TAKE = `SELECT sluice.take_arrivals(s.r_names, $2::bigint, ${LISTED}) FROM sluice.choose_stripes($3::json, true) s; COMMIT;
  BEGIN; SET LOCAL idle_in_transaction_session_timeout = ${STALL_MS}; SELECT sluice.claim_look($3::json)`
const BEFORE = `BEGIN; SET LOCAL synchronous_commit = off; SELECT sluice.promote(${AT_ONCE})`
const LOOK = `${BEFORE}; ${TAKE}`
const PARK_AND_LOOK = `${BEFORE}; SELECT sluice.park_unlisted(${QUEUES}, ${LISTED}, ${PARKED_AT_ONCE}); ${TAKE}`

/**
 * The first round trip of a claim, and the lanes that it parked. Its transaction stays open; a transaction that was
 * open is rolled back. Null: the claim must start again.
 */
export async function readForClaim(
  context: Context,
  db: Statements,
  request: ClaimRequest,
  plan: ReadPlan,
  stripes: StripeRound,
  open: boolean,
): Promise<{ readonly read: ReadSet | null; readonly unknown: readonly UnknownKind[] }> {
  const queues = request.queues.map(({ queue }) => queue)
  const known = knownTasks(request.tasks)
  // The claim looks ahead from the end of its read.
  const dueAheadUs = aheadOf(request) > 0 ? aheadOf(request) + context.readTookUs : 0
  const asked = {
    ...plan,
    lists: [...plan.lists].map(([bucket, { line, inOrder: in_order, groups }]) =>
      inOrder(LIST_READ, { bucket, line, in_order, groups: Object.fromEntries(groups) }),
    ),
    // The parameter's name in SQL: an upgraded store keeps the function of an earlier version.
    strange: plan.expectsUnlisted,
    queues,
    watched: WATCHED_AT_MOST,
    worker: request.worker,
    aheadUs: dueAheadUs,
    stripe: queues.map((queue) => stripes.first(queue, request.worker)),
    tried: stripes.tried,
    unreadable: [...context.unreadable],
    tasks: known && known.list,
    known: known && known.name,
    uses: ownUses(context, request),
    unserved: unserved(request.elsewhere, context.limits.elsewhere),
    holds: request.holds?.map(({ limit, key }) => useOf(context.limits, limit, key, request.worker)),
    line_of: request.queues.map(({ queue, slots }) =>
      inOrder(UNLIMITED, { queue, lane: unlimitedLaneKey(queue), slots }),
    ),
  }
  const park = known !== null && context.unlisted
  const script = park ? PARK_AND_LOOK : LOOK
  const results = await db.script(
    open ? `ROLLBACK; ${script}` : script,
    JSON.stringify(queues),
    String(context.turns.given),
    JSON.stringify(asked),
    JSON.stringify(known?.list ?? []),
    known?.name ?? '',
    String(request.worker),
  )
  // New lanes were assigned turns; four statements follow the one that returns them.
  const [turn, arrived] = JSON.parse(cellOf(results.at(-5)) ?? '') as [number, UnknownKind[] | null]
  context.turns.given = Math.max(context.turns.given, turn)
  const parked = park ? cellOf(results.at(-6)) : null
  const text = cellOf(results.at(-1))
  const read = text === null ? null : readSetOf(text)
  if (read) {
    const tookUs = read.now - (read.dueUntil - dueAheadUs)
    context.readTookUs = Math.min(Math.max(0, tookUs), TOOK_AT_MOST_US)
  }
  return {
    read,
    unknown: [...(arrived ?? []), ...(parked === null ? [] : (JSON.parse(parked) as UnknownKind[]))],
  }
}

/** How far ahead a claim looks, in µs: not at all where no queue has room for it. */
export function aheadOf({ aheadUs = 0, queues }: ClaimRequest): number {
  return queues.some(({ ahead = 0, slots }) => ahead > 0 && slots > 0) ? aheadUs : 0
}

function readSetOf(text: string): ReadSet {
  const { heads, ...rest } = JSON.parse(text) as Omit<ReadSet, 'heads'> & { readonly heads: HeadColumns }
  return { ...rest, heads: headRows(heads) }
}

/** The queues' own buckets: limit, key and owner. */
export function ownUses({ limits }: Context, { queues, worker }: ClaimRequest): unknown[] {
  return queues.flatMap(({ queue }) =>
    limits.usesOfQueue(queue).map(({ limit, key }) => useOf(limits, limit, key, worker)),
  )
}

function useOf(limits: Timelines, limit: string, key: string, worker: number): unknown {
  return inOrder(USE, { limit, key, worker: ownerFor(limits, limit, key, worker) })
}

/** The single value in a statement's answer. */
export function cellOf(rows: (readonly unknown[])[] | undefined): string | null {
  return (rows?.[0]?.[0] ?? null) as string | null
}
