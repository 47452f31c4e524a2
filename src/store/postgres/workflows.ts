import type { PgValue, Statements } from '../../database/statements.ts'
import { laneKey } from '../../jobs/lane.ts'
import { STATE } from '../shared/state.ts'
import type { Member, Placement } from '../shared/workflows/place.ts'
import type { Context } from './context.ts'
import { ageingText, columnsOf, INSERT_JOBS, levelOfJob } from './job-columns.ts'
import { usesText, weightsText } from './lane-key.ts'
import { currentLimits } from './limit-timelines.ts'

/** Behind the columns of any job: flow, node, step, item and attempt. */
const INSERT_MEMBERS = INSERT_JOBS.replace(/\)$/, ', $20::bigint[], $21::int[], $22::text[], $23::int[], $24::int[])')
/** The types of a row of `place_jobs`. */
export const PLACE_TYPES: readonly string[] =
  'bigint boolean int text text bigint int int int bigint text text text int text text text int bigint bigint'.split(
    ' ',
  )
const PLACE = `SELECT sluice.check_ageing($${PLACE_TYPES.length + 1}), sluice.place_jobs(${PLACE_TYPES.map((type, i) => `$${i + 1}::${type}[]`).join(', ')})`

/**
 * Moves jobs of flows to their new places, in one statement. It fails with SL003 if the pace of ageing has changed
 * (`atPace`).
 */
export async function placeJobs(context: Context, db: Statements, moves: readonly Placement[]): Promise<void> {
  for (const { arrival } of moves) context.queues.met(arrival.queue)
  const rows = moves.map((move) => placeRow(context, move))
  await db.all(PLACE, ...PLACE_TYPES.map((_, i) => rows.map((row) => row[i] ?? null)), ageingText(context))
}

/** A move as a row of the parameters of `place_jobs`. */
export function placeRow(context: Context, move: Placement): readonly (string | number | boolean | null)[] {
  const { seq, isNew, arrival, parked, input, kept, bytes } = move
  const { queue, uses, fairKey, priority, share, step, maxAttempts, attempt } = arrival
  const level = levelOfJob(context, { uses, priority }, context.clock.nowUs() + (arrival.delayUs ?? 0))
  const { state, dueUs, delayUs } = whenOf(move)
  const asked = level === priority ? null : priority
  const lane = laneKey(queue, uses, fairKey)
  const place = [seq, isNew, state, queue, lane, level, asked, maxAttempts, attempt, dueUs]
  const stored = usesText({ uses, ...(fairKey !== null && { fairKey }) })
  return [
    ...place,
    stored,
    weightsText(uses),
    fairKey,
    share,
    step,
    parked?.awaits ?? null,
    input,
    kept,
    bytes,
    delayUs,
  ]
}

/** The state in which a job arrives, and until when. */
function whenOf({ arrival: { delayUs, runAtMs }, parked }: Placement): {
  readonly state: number
  readonly dueUs: number | null
  readonly delayUs: number | null
} {
  if (parked)
    return { state: parked.dueUs === null ? STATE.pending : STATE.retryable, dueUs: parked.dueUs, delayUs: null }
  if (runAtMs !== null) return { state: STATE.scheduled, dueUs: Math.round(runAtMs * 1000), delayUs: null }
  if (delayUs === null || delayUs <= 0) return { state: STATE.available, dueUs: null, delayUs: null }
  return { state: STATE.retryable, dueUs: null, delayUs }
}

/** Stores jobs of flows at their places, in one statement. */
export async function insertMembers(context: Context, db: Statements, members: readonly Member[]): Promise<void> {
  await currentLimits(context, db)
  for (const { job } of members) context.queues.met(job.queue)
  const jobs = members.map(({ job, delayUs }) => ({ ...job, delayUs }))
  const places: PgValue[] = [
    members.map(({ flow }) => flow),
    members.map(({ node }) => node),
    members.map(({ step }) => step),
    members.map(({ item }) => item),
    members.map(({ attempt }) => attempt),
  ]
  await db.all(`SELECT ${INSERT_MEMBERS}`, ...columnsOf(context, jobs), ...places)
}
