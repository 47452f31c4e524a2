import type { Contender, WaitingUnits } from '../../policy/admission/wait-order.ts'
import type { TurnState } from '../../policy/admission/turn.ts'
import { hasPassed, knownTasks } from '../contract/known-tasks.ts'
import { column, type Columns, columns, numbers } from './columns.ts'
import { heldAsWhole, LIMITED, type LimitedQueue } from './queue-limits.ts'
import { ask, type Reading } from './reading.ts'
import { type Access, all, get } from './sql.ts'
import { LANE, STATE } from './state.ts'
import type { StoredBucket } from './stored-bucket.ts'
import { liveWorkers, type LiveWorker, servedBy } from './workers.ts'

/** The first jobs of one lane: those that start before the job in question. */
export interface LaneFront extends Readonly<TurnState> {
  readonly id: number
  readonly count: number
  /** The bucket's place in the lane's list. */
  readonly at: number
}

/** A lane that takes turns with others. */
export interface LaneInTurn extends Contender {
  /** The others may pass: limits of its queue hold it back, or only another worker lists its first task. */
  readonly isPassed: boolean
}

/** The lanes that take turns at a bucket. */
export interface Turns {
  readonly lanes: readonly LaneInTurn[]
  /** No worker takes jobs of any other lane that needs the bucket. */
  readonly areAll: boolean
}

/** The columns of a lane that may take turns with others. */
export const CONTENDER: Columns<
  Omit<Contender, 'levels'> & {
    readonly state: number
    readonly queue: string | number
    readonly passed: string | null
  }
> = columns({
  ...numbers('id', 'turn', 'taken', 'share', 'head', 'state'),
  queue: column<string | number>('queue'),
  passed: column<string | null>('passed'),
})

/** The total cost of a lane's first jobs; null without jobs. A free job counts neither as a start nor as the least. */
export type CostRow = readonly [
  starts: number,
  units: number | null,
  least: number | null,
  most: number | null,
  /** The highest given priority among them. */
  highest: number | null,
  /** The first time when one of them is discarded. */
  givenUp: number | null,
]

/** A cast makes the place an integer on SQLite, whose JSON operator reads other numbers as names. */
const UNITS = `CASE WHEN $1::boolean AND attempt > 0 THEN 0 WHEN weights IS NULL THEN 1
  ELSE (weights::json ->> CAST($2 AS int))::int END`
const waitingOf = ({ laneKey }: Access, place: string): string =>
  `FROM sluice.jobs WHERE lane = (SELECT ${laneKey} FROM sluice.lanes WHERE id = ${place}) AND state = ${STATE.available}`
const frontOf = (access: Access): string => `${waitingOf(access, '$3')} ORDER BY priority DESC, seq LIMIT $4`

/**
 * The lanes that need this bucket and no other, with their waiting jobs by level. Lanes of a queue that is paused or that
 * no live worker serves take no turns, nor do parked ones in which each live worker has found nothing. A store may stop
 * after a number of lanes.
 */
export function* turnsAt(access: Access, bucket: StoredBucket, nowUs: number): Reading<Turns> {
  const levels = `SELECT priority, count(*) ${waitingOf(access, '$1')} GROUP BY priority ORDER BY priority DESC`
  const live = yield* liveWorkers(access, nowUs)
  const served = yield* servedBy(access, live)
  const limited = yield* all<LimitedQueue>(access.db, LIMITED)
  const rows = yield* ask(() => access.lanesOf(bucket))
  const lanes: LaneInTurn[] = []
  for (const row of rows) {
    const { state, queue: stored, passed, ...lane } = CONTENDER.read(row)
    const queue = access.queueName(stored)
    const isParked = state === LANE.parked
    if (!served.has(queue) || (isParked && !isForSome(live, queue, passed ?? ''))) continue
    const counts = yield* all<[number, number]>(access.db, levels, lane.id)
    const isPassed = isParked || heldAsWhole(limited, queue, [])
    lanes.push({ ...lane, levels: counts.map(([priority, count]) => ({ priority, count })), isPassed })
  }
  return { lanes, areAll: rows.length === bucket.lanes }
}

/** Whether a live worker of its queue may yet find a job for it in a parked lane. */
function isForSome(live: readonly LiveWorker[], queue: string, passed: string): boolean {
  return live.some(({ queues, tasks }) => queues.includes(queue) && !hasPassed(passed, knownTasks(tasks ?? undefined)))
}

/** The cost of a lane's first jobs. @param free retries cost nothing. @param keptUs leaves out jobs discarded before then */
export function* costOf(access: Access, { id, count, at }: LaneFront, free: boolean, keptUs: number): Reading<CostRow> {
  const costs = `SELECT count(nullif(units, 0)), sum(units)::bigint, min(nullif(units, 0)), max(units), max(given), min(due)
    FROM (SELECT ${UNITS} AS units, coalesce(asked, priority)::int AS given, due ${frontOf(access)}) s
    WHERE due IS NULL OR due >= $5`
  return (yield* get<CostRow>(access.db, costs, free, at, id, count, keptUs)) as CostRow
}

/** A lane's first jobs, one by one. */
export function* jobsOf(access: Access, { id, count, at }: LaneFront, free: boolean): Reading<WaitingUnits[]> {
  const jobs = `SELECT seq, priority, ${UNITS} ${frontOf(access)}`
  const rows = yield* all<[seq: number, priority: number, units: number]>(access.db, jobs, free, at, id, count)
  return rows.map(([seq, priority, units]) => ({ seq, priority, units }))
}
