import type { PgValue, Statements } from '../../database/statements.ts'
import { NEVER_US } from '../../policy/admission/lane.ts'
import { knownTasks } from '../contract/known-tasks.ts'
import type { Claim, ClaimRequest } from '../contract/store.ts'
import { handedOut, takersOf, toAdmitted, type WrittenRow } from './claimed.ts'
import { nextDueUs, nextFireUs } from './claim-next.ts'
import type { Context } from './context.ts'
import { unlimitedLaneKey } from './lane-key.ts'
import type { ReadSet } from './read-set.ts'
import { kindsOf } from './unresolved.ts'
import { type PlaceOf, withResults } from './parent-results.ts'

/** The interval until the next try, when other transactions lock jobs that may start. */
export const HELD_AGAIN_US = 20_000

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

/** The parameter that is a single text. */
const KNOWN_AT = PARAMETERS.indexOf('text')

/** The call of `claim_open`, whose first parameter has this number. @param after an empty text that it reads first */
export function claimOpenCall(first: number, after?: string): string {
  const values = PARAMETERS.map((type, i) => `$${first + i}::${type}`)
  if (after !== undefined) values[KNOWN_AT] += ` || ${after}`
  return `sluice.claim_open(${values.join(', ')})`
}

const CLAIM_OPEN = `SELECT * FROM ${claimOpenCall(1)}`

/** A start, or the first row. */
export type StartRow = [...WrittenRow]

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

/** The claim from the rows of `claim_open`. Null: it did nothing, since the claim needs a decision. */
export async function openClaim(
  context: Context,
  db: Statements,
  request: ClaimRequest,
  [first, ...written]: readonly StartRow[],
  placeOf?: PlaceOf,
): Promise<Claim | null> {
  context.onlyOpen = first !== undefined
  if (!first) return null
  const state = JSON.parse(first[5]) as FirstRow
  const [, , , lineUs] = state.next
  const { nextEndUs } = context.limits
  const rows = inOrder(written, state.order)
  context.clock.saw(state.now)
  const ownUs = Math.min(nextFireUs(state), nextDueUs(state.next, state))
  const heldUs = state.held ? state.now + HELD_AGAIN_US : NEVER_US
  const nextWakeUs = Math.min(ownUs, heldUs, lineUs ?? NEVER_US, nextEndUs)
  const started = rows.map((row) => toAdmitted(row, state.now))
  const jobs = await withResults(context, db, rows, started, state, placeOf)
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
