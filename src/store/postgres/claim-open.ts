import type { Statements } from '../../database/postgres.ts'
import { NEVER_US } from '../../policy/admission/lane.ts'
import { knownTasks } from '../contract/known-tasks.ts'
import type { Claim, ClaimRequest } from '../contract/store.ts'
import { toAdmitted, type WrittenRow } from './claimed.ts'
import { nextDueUs } from './claim-next.ts'
import type { Context } from './context.ts'
import { nextFireUs } from './fire.ts'
import { unlimitedLaneKey } from './lane-key.ts'
import type { ReadSet } from './read-set.ts'
import { kindsOf } from './unresolved.ts'
import { withResults } from './parent-results.ts'

/** When jobs that may start are held by others' transactions, it is tried again so soon. */
export const HELD_AGAIN_US = 20_000

const CLAIM_OPEN =
  'SELECT * FROM sluice.claim_open($1::text[], $2::text[], $3::int[], $4::bigint, $5::bigint, $6::bigint, $7::bigint, $8::text[], $9::boolean, $10::text[], $11::text, $12::uuid)'

/** What the first row tells. */
type Told = Pick<ReadSet, 'now' | 'wall' | 'fire' | 'next' | 'unresolved'> & {
  readonly held: boolean
  readonly unknown: readonly (readonly [queue: string, task: string])[]
}

/** A claim where only jobs without limits wait: one statement, with nothing to decide. Null: there is more to it, and nothing was done. */
export async function claimOpen(context: Context, db: Statements, request: ClaimRequest): Promise<Claim | null> {
  const { queues, worker, leaseUs } = request
  if (
    !context.onlyOpen ||
    queues.every(({ slots }) => slots === 0) ||
    queues.some(({ queue }) => context.limits.usesOfQueue(queue).length > 0)
  )
    return null
  const { generation, nextEndUs } = context.limits
  const known = knownTasks(request.tasks)
  const [first, ...rows] = await db.all<[...WrittenRow]>(
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
  )
  context.onlyOpen = first !== undefined
  if (!first) return null
  const told = JSON.parse(first[5]) as Told
  const [, , , lineUs] = told.next
  context.clock.saw(told.now)
  const ownUs = Math.min(nextFireUs(told), nextDueUs(told.next, told))
  const heldUs = told.held ? told.now + HELD_AGAIN_US : NEVER_US
  const nextWakeUs = Math.min(ownUs, heldUs, lineUs ?? NEVER_US, nextEndUs)
  return {
    jobs: await withResults(
      db,
      rows,
      rows.map((row) => toAdmitted(row, told.now)),
    ),
    nowUs: told.now,
    looks: 0,
    rejected: [],
    schedules: [],
    nextWakeUs: nextWakeUs >= NEVER_US ? null : nextWakeUs,
    nextFireUs: ownUs >= NEVER_US ? null : ownUs,
    flows: [],
    unresolved: kindsOf(told.unresolved),
    closed: [],
    sustained: [],
    released: [],
    ...(told.unknown.length > 0 && { unknown: told.unknown.map(([queue, task]) => ({ queue, task })) }),
  }
}
