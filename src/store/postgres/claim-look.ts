import type { Statements } from '../../database/postgres.ts'
import { knownTasks } from '../known-tasks.ts'
import type { ClaimRequest } from '../store.ts'
import type { Context } from './context.ts'
import { openLineKey } from './lane-key.ts'
import type { Look, Portion } from './look.ts'
import { ownerFor } from './own.ts'

/** Jobs whose time has come, or occurrences, that one transaction moves at most. */
export const AT_ONCE = 1000
/** A claim that stalls between its two round trips keeps others waiting for so long at most; its connection dies. */
const STALL_MS = 1500

const LOOK = `BEGIN; SET LOCAL synchronous_commit = off; SELECT sluice.promote(${AT_ONCE});
  SELECT sluice.take_arrivals(ARRAY(SELECT json_array_elements_text($1::json)), $2::bigint) AS turn; COMMIT;
  BEGIN; SET LOCAL idle_in_transaction_session_timeout = ${STALL_MS}; SELECT sluice.claim_look($3::json)`

/** The first round trip of a claim. Its transaction stays open; one that was open is rolled back. Null: all must begin anew. */
export async function claimLook(
  context: Context,
  db: Statements,
  request: ClaimRequest,
  portion: Portion,
  open: boolean,
): Promise<Look | null> {
  const queues = request.queues.map(({ queue }) => queue)
  const known = knownTasks(request.tasks)
  const asked = {
    ...portion,
    queues,
    worker: request.worker,
    unreadable: [...context.unreadable],
    tasks: known && known.list,
    known: known && known.name,
    uses: ownUses(context, request),
    line_of: request.queues.map(({ queue, slots }) => [queue, openLineKey(queue), slots]),
  }
  const results = await db.script(
    open ? `ROLLBACK; ${LOOK}` : LOOK,
    JSON.stringify(queues),
    String(context.turns.given),
    JSON.stringify(asked),
  )
  // Newcomers were given turns; four statements follow the one that says so.
  context.turns.given = Math.max(context.turns.given, Number(cellOf(results.at(-5))))
  const text = cellOf(results.at(-1))
  return text === null ? null : (JSON.parse(text) as Look)
}

/** The queues' own buckets: limit, key and whose. */
export function ownUses({ limits }: Context, { queues, worker }: ClaimRequest): unknown[] {
  return queues.flatMap(({ queue }) =>
    limits.usesOfQueue(queue).map(({ limit, key }) => [limit, key, ownerFor(limits, limit, key, worker)]),
  )
}

/** The one value that a statement answers. */
export function cellOf(rows: (readonly unknown[])[] | undefined): string | null {
  return (rows?.[0]?.[0] ?? null) as string | null
}
