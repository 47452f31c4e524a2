import type { Statements } from '../../database/postgres.ts'
import { NEVER_US } from '../../policy/admission/lane.ts'
import { knownTasks } from '../contract/known-tasks.ts'
import type { Claim, ClaimRequest } from '../contract/store.ts'
import { handedOut, takersOf, toAdmitted, type WrittenRow } from './claimed.ts'
import { nextDueUs } from './claim-next.ts'
import type { Context } from './context.ts'
import { nextFireUs } from './fire.ts'
import { unlimitedLaneKey } from './lane-key.ts'
import type { ReadSet } from './read-set.ts'
import { kindsOf } from './unresolved.ts'
import { withResults } from './parent-results.ts'

/** The interval until the next try, when other transactions lock jobs that may start. */
export const HELD_AGAIN_US = 20_000

const CLAIM_OPEN =
  'SELECT * FROM sluice.claim_open($1::text[], $2::text[], $3::int[], $4::bigint, $5::bigint, $6::bigint, $7::bigint, $8::text[], $9::boolean, $10::text[], $11::text, $12::uuid, $13::bigint[], $14::uuid[])'

/** The state of the store in the first row. */
type FirstRow = Pick<ReadSet, 'now' | 'wall' | 'fire' | 'next' | 'unresolved'> & {
  readonly held: boolean
  readonly unknown: readonly (readonly [queue: string, task: string])[]
  /** The starts by their `seq`. */
  readonly order: readonly number[]
}

/**
 * Claims when only jobs without limits wait: one statement, without a decision. Null: the claim needs a decision, and
 * nothing was done.
 */
export async function claimOpen(context: Context, db: Statements, request: ClaimRequest): Promise<Claim | null> {
  const { queues, worker, leaseUs } = request
  if (
    !context.onlyOpen ||
    // Only a decision names the changes by which held starts go back.
    request.holds !== undefined ||
    queues.every(({ slots }) => slots === 0) ||
    queues.some(({ queue }) => context.limits.usesOfQueue(queue).length > 0)
  )
    return null
  const { generation, nextEndUs } = context.limits
  const known = knownTasks(request.tasks)
  const [first, ...written] = await db.all<[...WrittenRow]>(
    CLAIM_OPEN,
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
  )
  context.onlyOpen = first !== undefined
  if (!first) return null
  const state = JSON.parse(first[5]) as FirstRow
  const [, , , lineUs] = state.next
  const rows = inOrder(written, state.order)
  context.clock.saw(state.now)
  const ownUs = Math.min(nextFireUs(state), nextDueUs(state.next, state))
  const heldUs = state.held ? state.now + HELD_AGAIN_US : NEVER_US
  const nextWakeUs = Math.min(ownUs, heldUs, lineUs ?? NEVER_US, nextEndUs)
  const jobs = await withResults(
    db,
    rows,
    rows.map((row) => toAdmitted(row, state.now)),
  )
  return {
    ...handedOut(request, rows, jobs),
    nowUs: state.now,
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
    ...(state.unknown.length > 0 && { unknown: state.unknown.map(([queue, task]) => ({ queue, task })) }),
  }
}

/** The server writes the starts of a claim in an order of its own. */
function inOrder(rows: readonly WrittenRow[], seqs: readonly number[]): WrittenRow[] {
  const places = new Map(seqs.map((seq, place) => [seq, place]))
  return rows.toSorted(([a], [b]) => (places.get(a) ?? 0) - (places.get(b) ?? 0))
}
